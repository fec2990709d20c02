/** The question: which settings, how much memory. */

import {useSignal} from '@preact/signals';
import {binary} from '../../model/units';
import * as store from '../../state/store';
import {askRuns, type Questions} from './asking';
import {Waiting} from './progress';
import {QUICK_CHOICES, settingOf, withSetting} from './settings';
import type {CardFit} from './simulation';

/** Settings and capacity as they are remembered: in the address. */
export function rememberedQuestion(): {conf: string; capacity: string} | null {
  const {'what-if.conf': conf, 'what-if.capacity': capacity} = store.options.value;
  return conf === undefined && capacity === undefined ? null : {conf: conf ?? '', capacity: capacity ?? ''};
}

/** Asks what is written in the form: under the recording's own settings too, where they are known. */
export function askWritten(questions: Questions, conf: string, capacity: string): void {
  const own = questions.study.answer.peek().value?.runs[0]?.conf;
  const confs = own === undefined || own === conf ? [conf] : [own, conf];
  askRuns(questions, confs, capacity.trim());
}

export function QuestionForm({questions, cards}: {questions: Questions; cards: CardFit[]}) {
  const remembered = rememberedQuestion();
  const conf = useSignal(remembered?.conf ?? '');
  const capacity = useSignal(remembered?.capacity ?? '');
  const {isBusy, value} = questions.own.answer.value;
  const ask = () => {
    store.options.value = {...store.options.value, 'what-if.conf': conf.value, 'what-if.capacity': capacity.value};
    askWritten(questions, conf.value, capacity.value);
  };
  const clear = () => {
    const {'what-if.conf': _, 'what-if.capacity': __, ...rest} = store.options.value;
    store.options.value = rest;
    conf.value = '';
    capacity.value = '';
    questions.own.forget();
  };
  return (
    <form
      class="card question"
      onSubmit={event => {
        event.preventDefault();
        ask();
      }}
    >
      <label class="conf">
        <span>PYTORCH_CUDA_ALLOC_CONF</span>
        <input
          type="text"
          spellcheck={false}
          placeholder="default settings"
          value={conf.value}
          onInput={event => (conf.value = event.currentTarget.value)}
        />
      </label>
      {QUICK_CHOICES.map(({key, values}) => (
        <QuickChoice key={key} name={key} values={values} conf={conf.value} onChange={next => (conf.value = next)} />
      ))}
      <label>
        <span>memory</span>
        <input
          type="text"
          size={9}
          placeholder="no limit"
          title="A limit as set_per_process_memory_fraction sets it, such as 24GiB, or a GPU, such as RTX 4090, without its CUDA context"
          value={capacity.value}
          onInput={event => (capacity.value = event.currentTarget.value)}
        />
      </label>
      {cards.length > 0 && (
        <label>
          <span>or of a GPU</span>
          <select
            value=""
            onChange={event => {
              capacity.value = event.currentTarget.value;
              event.currentTarget.value = '';
            }}
          >
            <option value="">…</option>
            {cards.map(({short_name: name, gigabytes, total_bytes: total}) => (
              <option key={name} value={name}>
                {gigabytes} GB: {name} ({binary(total)})
              </option>
            ))}
          </select>
        </label>
      )}
      <span class="buttons">
        <button type="submit" class="primary">
          Simulate
        </button>
        {isBusy ? (
          <button type="button" onClick={() => questions.own.cancel()}>
            cancel
          </button>
        ) : (
          value && (
            <button type="button" onClick={clear}>
              clear
            </button>
          )
        )}
      </span>
      {isBusy && <Waiting asking={questions.own} />}
    </form>
  );
}

function QuickChoice(props: {name: string; values: readonly string[]; conf: string; onChange(conf: string): void}) {
  const {name, values, conf} = props;
  const set = settingOf(conf, name);
  const choices = set === '' || values.includes(set) ? values : [...values, set];
  return (
    <label>
      <span>{name}</span>
      <select value={set} onChange={event => props.onChange(withSetting(conf, name, event.currentTarget.value))}>
        <option value="">–</option>
        {choices.map(value => (
          <option key={value} value={value}>
            {value}
          </option>
        ))}
      </select>
    </label>
  );
}
