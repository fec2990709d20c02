/** What if: other settings, less memory; as it was and as it would have been, side by side. */

import {useSignal} from '@preact/signals';
import {useEffect, useMemo} from 'preact/hooks';
import {copyText} from '../../kit/copy';
import {UNASKED_ENTRIES} from '../../kit/explanation';
import {ProblemCard} from '../../kit/problem';
import {asSentence, Code, Prose} from '../../kit/prose';
import {count} from '../../model/units';
import type {Opened} from '../../state/session';
import {askStudy, type Questions, questionsOf} from './asking';
import {Alarms, EmptyCaches, LongLived, Waterfall} from './causes';
import {WhatIfChart} from './chart';
import {FitTable, studyText} from './fit-table';
import {askWritten, QuestionForm, rememberedQuestion} from './form';
import {type Line, lineId, linesOf} from './lines';
import {Waiting} from './progress';
import {RunsTable} from './runs-table';
import {exportLine} from './settings';
import type {Simulation} from './simulation';

export function WhatIfView({device}: {device: Opened}) {
  const {manifest} = device;
  if (manifest.what_if === 'left out') {
    return (
      <section class="view what-if" aria-label="What if">
        <div class="card">
          <h2>What if is not in this page</h2>
          <p>
            <Prose text={manifest.what_if_reason ?? 'it was left out when the page was made'} />
          </p>
          <p class="faint">
            Open the snapshot with <code>highwater view FILE</code>, or ask <code>highwater simulate FILE</code>
          </p>
        </div>
      </section>
    );
  }
  return <WhatIf device={device} />;
}

function WhatIf({device}: {device: Opened}) {
  const questions = questionsOf(device);
  const study = questions.study.answer.value;
  const own = questions.own.answer.value;
  const isLive = device.manifest.what_if === 'live';
  useEffect(() => start(questions), [questions]);

  const lines = useMemo(() => linesOf(study.value?.timelines ?? []), [study.value]);
  const ownLines = useMemo(() => linesOf(own.value?.timelines ?? []), [own.value]);
  const toggled = useSignal<ReadonlySet<string>>(new Set());
  const shown = useMemo(() => shownLines(study.value, toggled.value), [study.value, toggled.value]);
  const drawn = own.value ? ownLines : lines.filter(({id}) => shown.has(id));
  const cards = study.value?.fit[0]?.cards ?? [];
  return (
    <section class="view what-if" aria-label="What if">
      {isLive && <QuestionForm questions={questions} cards={cards} />}
      {own.problem && <ProblemCard problem={own.problem} />}
      <WhatIfChart device={device} lines={drawn} />
      {own.value && <RunsTable heading="Runs" simulation={own.value} lines={ownLines} />}
      {study.problem && <ProblemCard problem={study.problem} />}
      {!study.value && isLive && <StudyState questions={questions} device={device} />}
      {study.value && (
        <Study
          simulation={study.value}
          lines={lines}
          shown={shown}
          onToggle={id => {
            const next = new Set(toggled.value);
            if (!next.delete(id)) next.add(id);
            toggled.value = next;
            questions.own.forget();
          }}
        />
      )}
    </section>
  );
}

/** Asks what there is to be asked when the view opens. */
function start(questions: Questions): void {
  const {study, own, device} = questions;
  const isUnasked = (answer: typeof study.answer) => {
    const {value, problem, isBusy} = answer.peek();
    return !value && !problem && !isBusy;
  };
  const isLive = device.manifest.what_if === 'live';
  const isSmall = device.device.entries <= UNASKED_ENTRIES;
  const studied = isUnasked(study.answer) && (isSmall || !isLive) ? askStudy(questions) : Promise.resolve();
  const written = rememberedQuestion();
  if (!written || !isLive || !isUnasked(own.answer)) return;
  // The study tells the recording's own settings, which the question is compared with.
  void studied.then(() => {
    if (isUnasked(own.answer)) askWritten(questions, written.conf, written.capacity);
  });
}

function StudyState({questions, device}: {questions: Questions; device: Opened}) {
  const {isBusy} = questions.study.answer.value;
  return (
    <div class="card">
      <h2>Would other settings have helped? What is the smallest GPU?</h2>
      <div class="actions">
        {isBusy ? (
          <>
            <button type="button" onClick={() => questions.study.cancel()}>
              cancel
            </button>
            <Waiting asking={questions.study} />
          </>
        ) : (
          <>
            <button type="button" class="primary" onClick={() => void askStudy(questions)}>
              Find out
            </button>
            <span class="faint">
              replays {count(device.entries)} entries under several settings and many memory limits
            </span>
          </>
        )}
      </div>
    </div>
  );
}

/** The lines to draw: at first the recording's own settings and the ones of the verdict, then what was toggled. */
function shownLines(study: Simulation | null, toggled: ReadonlySet<string>): ReadonlySet<string> {
  if (!study) return new Set();
  const best =
    study.verdict?.conf ?? study.fit.toSorted((a, b) => a.min_capacity_bytes - b.min_capacity_bytes)[0]?.conf;
  const first = [study.runs[0]?.conf, best].flatMap(conf =>
    conf === undefined ? [] : [lineId({conf, capacity_bytes: null})],
  );
  const shown = new Set(first);
  for (const id of toggled) if (!shown.delete(id)) shown.add(id);
  return shown;
}

interface StudyProps {
  readonly simulation: Simulation;
  readonly lines: readonly Line[];
  readonly shown: ReadonlySet<string>;
  onToggle(id: string): void;
}

function Study({simulation, lines, shown, onToggle}: StudyProps) {
  const {verdict, premise, fidelity, torch} = simulation;
  const lineOf = new Map(lines.filter(({capacityBytes}) => capacityBytes === null).map(line => [confOf(line), line]));
  return (
    <>
      <div class="card verdict">
        <h2>
          Verdict
          {fidelity && torch && (
            <span class="faint">
              {fidelity.equal === fidelity.entries
                ? `all ${count(fidelity.entries)} entries replayed as recorded`
                : `${count(fidelity.equal)} of ${count(fidelity.entries)} entries replayed as recorded`}
              , by torch {torch.replayed}’s rules
            </span>
          )}
          <span class="spring" />
          <button
            type="button"
            class="plain"
            title="Copy verdict and fit table as text"
            onClick={() => copyText(studyText(simulation))}
          >
            copy
          </button>
        </h2>
        {verdict && (
          <p>
            <Prose text={asSentence(verdict.text)} />
          </p>
        )}
        {verdict?.conf && <Recommended conf={verdict.conf} />}
        <Alarms alarms={simulation.alarms} />
        {premise && (
          <p class="faint">
            <Prose text={asSentence(premise)} />
          </p>
        )}
      </div>
      <FitTable simulation={simulation} lineOf={lineOf} shown={shown} onToggle={onToggle} />
      <div class="card-columns">
        <Waterfall waterfall={simulation.waterfall} />
        <LongLived sites={simulation.sites} />
        <EmptyCaches empty_caches={simulation.empty_caches} />
      </div>
      <RunsTable heading="Under its own settings" simulation={simulation} lines={lines} />
    </>
  );
}

/** The settings to use, as a line for the shell. */
function Recommended({conf}: {conf: string}) {
  const line = exportLine(conf);
  return (
    <div class="change">
      <Code text={line} />
      <button type="button" class="primary" onClick={() => copyText(line)}>
        copy
      </button>
    </div>
  );
}

function confOf({id}: Line): string {
  return id.slice(0, id.lastIndexOf('@'));
}
