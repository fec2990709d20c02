/** The calculator: what is asked at the left, the answer at the right, one below the other where it is narrow. */

import {copyText, notice} from '../kit/copy';
import {DropPage} from '../kit/files';
import {ProblemCard} from '../kit/problem';
import {ThemeButton} from '../kit/theme-button';
import {choices, estimate, openFile, problem} from './answers';
import {FitCard} from './fit-card';
import {Form} from './form';
import {commandOf, model, words} from './inputs';
import {Notes} from './notes';
import {CardsTable, Phases, Terms} from './tables';
import {Headline, Verdict} from './verdict';

export function Page() {
  const shown = estimate.value;
  return (
    <DropPage open={file => void openFile(file)}>
      <Header />
      <div class="glance" aria-hidden="true">
        {problem.value ? <p class="danger">✗ {problem.value.message}</p> : shown && <Headline document={shown} />}
      </div>
      <main class="calculator">
        {choices.value && <Form choices={choices.value} />}
        <div class="results">
          {problem.value && <ProblemCard problem={problem.value} />}
          {shown ? (
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

function Header() {
  const command = commandOf(model.value, words.value);
  return (
    <header>
      <h1>
        <b class="brand">highwater</b> <span class="faint">the memory of a model, before it runs</span>
      </h1>
      <span class="spring" />
      <button type="button" title={command} onClick={() => void copyText(command)}>
        Copy command
      </button>
      <button type="button" title="All that is chosen is in the address" onClick={() => void copyText(location.href)}>
        Copy address
      </button>
      <ThemeButton />
    </header>
  );
}
