/** What is asked about serving: the engine, the GPU, and the engine's own flags. */

import {chooseFlags, served} from './answers';
import type {Choices, Engine} from './document';
import {Group, LogSlider, NumberInput} from './fields';
import {CardField, ModelField} from './form';
import {type Serving, serving} from './inputs';
import {engineOf} from './serving';

/** The ends of the sliders. */
const SLIDERS: Readonly<Record<string, readonly [number, number]>> = {sequences: [1, 4096], length: [256, 1 << 20]};

type Field = Engine['fields'][number];

export function ServingForm({choices, asked}: {choices: Choices; asked: Serving}) {
  const engine = engineOf(choices.engines, asked.engine);
  const gpu = choices.options.find(option => option.name === 'gpu');
  const fields = engine?.fields ?? [];
  return (
    <form class="inputs" onSubmit={event => event.preventDefault()}>
      <ModelField models={choices.models} />
      <Group title="Engine">
        <EngineFields engines={choices.engines} asked={asked} />
        {gpu && <CardField option={gpu} choices={choices} />}
      </Group>
      <Group title="Requests">
        {fields
          .filter(({label}) => label in SLIDERS)
          .map(field => (
            <RequestSlider key={field.name} field={field} asked={asked} />
          ))}
      </Group>
      {fields.length > 0 && (
        <Group title="Flags">
          {fields
            .filter(({label}) => !(label in SLIDERS))
            .map(field => (
              <FlagField key={field.name} field={field} asked={asked} cacheTypes={engine?.cache_types ?? []} />
            ))}
        </Group>
      )}
    </form>
  );
}

function EngineFields({engines, asked}: {engines: readonly Engine[]; asked: Serving}) {
  const [name, release = ''] = asked.engine.split('@');
  const set = (engine: string) => {
    serving.value = {engine, flags: {}};
  };
  const usual = engines.find(engine => engine.name === name)?.release ?? '';
  // Builds of llama.cpp and releases of transformers make no difference.
  const hasReleases = usual !== '0.0.0';
  return (
    <>
      <label>
        <span>engine</span>
        <select
          id="engine"
          value={name}
          onChange={event => {
            const chosen = engines.find(engine => engine.name === event.currentTarget.value);
            if (chosen) set(chosen.release === '0.0.0' ? chosen.name : `${chosen.name}@${chosen.release}`);
          }}
        >
          {engines.map(engine => (
            <option key={engine.name} value={engine.name}>
              {engine.title}
            </option>
          ))}
        </select>
      </label>
      {hasReleases && (
        <label for="release-number">
          <span>release</span>
          <NumberInput
            name="release"
            value={release}
            placeholder={usual}
            set={to => {
              serving.value = {...asked, engine: to === '' ? name : `${name}@${to}`};
            }}
          />
        </label>
      )}
    </>
  );
}

/** A slider stands at what the answer was worked out for, where nobody has said. */
function RequestSlider({field, asked}: {field: Field; asked: Serving}) {
  const own = asked.flags[field.name];
  const shown = field.label === 'length' ? served.value?.max_model_len : undefined;
  return (
    <LogSlider
      name={field.name}
      label={field.label}
      ends={SLIDERS[field.label]}
      word={own ?? String(shown ?? '')}
      set={to => chooseFlags({[field.name]: to})}
      placeholder="default"
    />
  );
}

function FlagField({field, asked, cacheTypes}: {field: Field; asked: Serving; cacheTypes: readonly string[]}) {
  const {name, label, help, takes} = field;
  const word = asked.flags[name] ?? '';
  if (takes === '') {
    return (
      <label class="check" title={help}>
        <input
          type="checkbox"
          checked={word === 'true'}
          onChange={event => chooseFlags({[name]: event.currentTarget.checked ? 'true' : ''})}
        />
        {label}
      </label>
    );
  }
  if (takes !== 'TYPE') {
    return (
      <label for={`${name}-number`} title={help.replaceAll('`', '')}>
        <span>{label}</span>
        <NumberInput name={name} value={word} placeholder="default" set={to => chooseFlags({[name]: to})} />
      </label>
    );
  }
  return (
    <label title={help.replaceAll('`', '')}>
      <span>{label}</span>
      <select id={name} value={word} onChange={event => chooseFlags({[name]: event.currentTarget.value})}>
        <option value="">default</option>
        {cacheTypes.map(type => (
          <option key={type} value={type}>
            {type}
          </option>
        ))}
      </select>
    </label>
  );
}
