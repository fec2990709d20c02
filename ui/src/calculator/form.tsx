/** What is asked. */

import {FileButton} from '../kit/files';
import {binary} from '../model/units';
import {card, choose, estimate, openFile} from './answers';
import type {Choices, Option} from './document';
import {Group, OptionField, Switch, wordOf} from './fields';
import {model, serving} from './inputs';
import {ServingForm} from './serving-form';

export function Form({choices}: {choices: Choices}) {
  if (serving.value) return <ServingForm choices={choices} asked={serving.value} />;
  const groups = [...new Set(['', ...choices.options.map(option => option.field.group)])];
  return (
    <form class="inputs" onSubmit={event => event.preventDefault()}>
      <ModelField models={choices.models} />
      {groups.map(group => {
        const options = choices.options.filter(option => option.field.group === group && isAsked(option));
        if (group === '') return options.map(option => <Switch key={option.name} option={option} />);
        return (
          options.length > 0 && (
            <Group key={group} title={group}>
              {options.map(option => (
                <FieldOf key={option.name} option={option} choices={choices} />
              ))}
            </Group>
          )
        );
      })}
    </form>
  );
}

/** Whether an option means something as things are. */
function isAsked({field, needs}: Option): boolean {
  return (field.mode === undefined || field.mode === wordOf('mode')) && (needs === undefined || wordOf(needs) !== '');
}

function FieldOf({option, choices}: {option: Option; choices: Choices}) {
  const {name} = option;
  if (name === 'gpu') return <CardField option={option} choices={choices} />;
  const flag = choices.options.find(other => other.name === option.excludes);
  if (flag) return <ShardingField zero={option} fsdp={flag} />;
  // It is one of the choices of the other.
  if (choices.options.some(other => other.excludes === name)) return null;
  const setup = estimate.value?.setup;
  return (
    <OptionField option={option} shown={name === 'batch' ? setup?.batch : name === 'seq' ? setup?.seq : undefined} />
  );
}

export function CardField({option, choices}: {option: Option; choices: Choices}) {
  return (
    <label class="wide">
      <span>{option.field.label}</span>
      <select id="gpu" value={card.value} onChange={event => choose({gpu: event.currentTarget.value})}>
        {choices.cards.map(({name, title, memory_bytes: bytes}) => (
          <option key={name} value={name}>
            {title} · {binary(bytes)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Two options that exclude each other, as one choice: a stage of ZeRO, or FSDP. */
function ShardingField({zero, fsdp}: {zero: Option; fsdp: Option}) {
  const all = [
    ...(zero.choices ?? []).map(({name, help}) => ({
      label: name === '0' ? 'none' : `ZeRO ${name}`,
      help,
      words: {[zero.name]: name, [fsdp.name]: ''},
    })),
    {label: fsdp.field.label, help: '', words: {[zero.name]: '', [fsdp.name]: 'true'}},
  ];
  const chosen = wordOf(fsdp.name) === 'true' ? all.length - 1 : Number(wordOf(zero.name));
  return (
    <label>
      <span>{zero.field.label}</span>
      <select id="sharding" value={chosen} onChange={event => choose(all[Number(event.currentTarget.value)].words)}>
        {all.map(({label, help}, i) => (
          <option key={label} value={i} title={help}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

/** What a name of the catalogue begins with: `qwen` of `qwen2.5-1.5b`. */
function familyOf(name: string): string {
  return /^[a-z]+/.exec(name)?.[0] ?? name;
}

export function ModelField({models}: {models: readonly string[]}) {
  const chosen = model.value;
  const own = 'named' in chosen ? chosen.named : '';
  const file = 'from' in chosen ? chosen.from : 'lost' in chosen ? chosen.lost : null;
  const families = [...new Set(models.map(familyOf))];
  return (
    <div class="model">
      <label>
        <span>model</span>
        <select
          id="model"
          value={own}
          onChange={event => {
            if (event.currentTarget.value) model.value = {named: event.currentTarget.value};
          }}
        >
          {file !== null && <option value="">{file}</option>}
          {own !== '' && !models.includes(own) && <option value={own}>{own}</option>}
          {families.map(family => (
            <optgroup key={family} label={family}>
              {models
                .filter(name => familyOf(name) === family)
                .map(name => (
                  <option key={name} value={name}>
                    {name}
                  </option>
                ))}
            </optgroup>
          ))}
        </select>
      </label>
      <FileButton
        title="A config.json, a safetensors or a GGUF file, only its header is read; or drop it on the page"
        open={file => void openFile(file)}
      >
        File …
      </FileButton>
    </div>
  );
}
