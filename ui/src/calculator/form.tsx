/** What is asked. */

import {FileButton} from '../kit/files';
import {binary} from '../model/units';
import {card, choose, estimate, openFile} from './answers';
import type {Choices} from './document';
import {Check, Group, NumberField, Select, Slider, Switch, wordOf} from './fields';
import {model} from './inputs';

const DTYPES = ['float32', 'bfloat16', 'float16'].map(name => ({name, help: ''}));

const SHARDINGS = [
  {label: 'not sharded', zero: '', fsdp: ''},
  {label: 'ZeRO 1: optimizer state', zero: '1', fsdp: ''},
  {label: 'ZeRO 2: and gradients', zero: '2', fsdp: ''},
  {label: 'ZeRO 3: and parameters', zero: '3', fsdp: ''},
  {label: 'FSDP 2', zero: '', fsdp: 'true'},
];

export function Form({choices}: {choices: Choices}) {
  const mode = wordOf('mode');
  const isTraining = mode === 'train';
  const hasAdapters = wordOf('lora-rank') !== '';
  return (
    <form class="inputs" onSubmit={event => event.preventDefault()}>
      <ModelField models={choices.models} />
      <Switch name="mode" label="What the script does" />
      <Group title="Size">
        <Slider name="batch" label="batch" least={1} most={4096} shown={estimate.value?.setup.batch} />
        <Slider name="seq" label="sequence" least={16} most={131072} shown={estimate.value?.setup.seq} />
        {mode === 'generate' && <Slider name="new-tokens" label="new tokens" least={1} most={131072} />}
      </Group>
      <Group title="Numbers">
        <Select name="dtype" label="weights" options={DTYPES} />
        <Select name="autocast" label="autocast" options={DTYPES.slice(1)} none="off" />
      </Group>
      <Group title="Run">
        {isTraining && <Select name="optimizer" label="optimizer" />}
        <Select name="attention" label="attention" />
        {isTraining && <Select name="loss" label="loss" />}
        {isTraining && <Select name="keep" label="script holds" />}
        {isTraining && <NumberField name="accumulation" label="micro-batches" />}
        {mode === 'generate' && <Select name="cache" label="KV cache" />}
        {isTraining && <Check name="checkpointing" label="gradient checkpointing" />}
      </Group>
      {isTraining && (
        <Group title="LoRA">
          <NumberField name="lora-rank" label="rank" placeholder="none" />
          {hasAdapters && <Select name="lora-targets" label="adapters on" />}
          {hasAdapters && <NumberField name="lora-dropout" label="dropout" />}
          {hasAdapters && <Select name="quantise" label="frozen weights" none="as they are" />}
        </Group>
      )}
      <Group title="Cards">
        <label>
          <span>card</span>
          <select id="gpu" value={card.value} onChange={event => choose({gpu: event.currentTarget.value})}>
            {choices.cards.map(({name, memory_bytes: bytes}) => (
              <option key={name} value={name}>
                {name} · {binary(bytes)}
              </option>
            ))}
          </select>
        </label>
        <Select name="torch" label="torch" />
        <NumberField name="world-size" label="data-parallel ranks" />
        <ShardingField />
        <NumberField name="tensor-parallel" label="tensor-parallel" />
        <NumberField name="pipeline-parallel" label="pipeline stages" />
      </Group>
    </form>
  );
}

function ShardingField() {
  const {zero, fsdp} = {zero: wordOf('zero'), fsdp: wordOf('fsdp')};
  const chosen = SHARDINGS.findIndex(one => (one.fsdp ? fsdp === one.fsdp : fsdp !== 'true' && zero === one.zero));
  return (
    <label>
      <span>sharding</span>
      <select
        id="sharding"
        value={Math.max(0, chosen)}
        onChange={event => {
          const {zero, fsdp} = SHARDINGS[Number(event.currentTarget.value)];
          choose({zero, fsdp});
        }}
      >
        {SHARDINGS.map(({label}, i) => (
          <option key={label} value={i}>
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

function ModelField({models}: {models: readonly string[]}) {
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
        title="A config.json, a safetensors or a GGUF file, of which only the header is read; or drop it on the page"
        open={file => void openFile(file)}
      >
        File …
      </FileButton>
    </div>
  );
}
