/** The calculator: what is asked at the left, the answer at the right, one below the other where it is narrow. */

import {copyText, notice} from '../kit/copy';
import {DropPage} from '../kit/files';
import {ProblemCard} from '../kit/problem';
import {ThemeButton} from '../kit/theme-button';
import {choices, estimate, openFile, problem, served} from './answers';
import {FitCard} from './fit-card';
import {Form} from './form';
import {commandOf, model, type Serving, serving, words} from './inputs';
import {Notes} from './notes';
import {engineOf} from './serving';
import {ServingHeadline, ServingResults} from './serving-page';
import {CardsTable, Phases, Terms} from './tables';
import {Headline, Verdict} from './verdict';

export function Page() {
  const shown = estimate.value;
  const asked = serving.value;
  const answer = served.value;
  return (
    <DropPage open={file => void openFile(file)}>
      <Header />
      <div class="glance" aria-hidden="true">
        {problem.value ? (
          <p class="danger">✗ {problem.value.message}</p>
        ) : asked ? (
          answer && <ServingHeadline document={answer} />
        ) : (
          shown && <Headline document={shown} />
        )}
      </div>
      <main class="calculator">
        {choices.value && <Form choices={choices.value} />}
        <div class="results">
          {problem.value && <ProblemCard problem={problem.value} />}
          {asked && answer ? (
            <div class={problem.value ? 'stale' : undefined} inert={problem.value !== null}>
              <ServingResults document={answer} engine={engineOf(choices.value?.engines ?? [], asked.engine)} />
            </div>
          ) : shown && !asked ? (
            <div class={problem.value ? 'stale' : undefined} inert={problem.value !== null}>
              <Verdict document={shown} />
              <div class="card-columns">
                <Phases document={shown} />
                <CardsTable document={shown} />
              </div>
              <FitCard document={shown} />
              <Terms document={shown} />
              <Notes document={shown} />
            </div>
          ) : (
            !problem.value && <p class="reading">computing …</p>
          )}
        </div>
      </main>
      <div class="notice" role="status">
        {notice.value}
      </div>
    </DropPage>
  );
}

interface QuestionProps {
  readonly label: string;
  readonly isOn: boolean;
  readonly choose: () => Serving | null;
}

function QuestionButton({label, isOn, choose}: QuestionProps) {
  const take = () => {
    if (!isOn) serving.value = choose();
  };
  return (
    <button type="button" class={isOn ? 'on' : ''} aria-pressed={isOn} onClick={take}>
      {label}
    </button>
  );
}

/** The engine that is asked first, as it is without flags. */
function usualServing(): Serving {
  const first = choices.value?.engines[0];
  return {engine: first ? `${first.name}@${first.release}` : 'vllm', flags: {}};
}

function Header() {
  const command = commandOf(model.value, words.value, serving.value);
  return (
    <header>
      <h1>
        <b class="brand">highwater</b> <span class="faint">the memory of a model, before it runs</span>
      </h1>
      <nav class="switch" aria-label="Question">
        <QuestionButton label="Training" isOn={serving.value === null} choose={() => null} />
        <QuestionButton label="Serving" isOn={serving.value !== null} choose={usualServing} />
      </nav>
      <span class="spring" />
      <button type="button" title={command} onClick={() => void copyText(command)}>
        Copy command
      </button>
      <button
        type="button"
        class="copy-address"
        title="The address holds all choices"
        onClick={() => void copyText(location.href)}
      >
        Copy address
      </button>
      <ThemeButton />
    </header>
  );
}
