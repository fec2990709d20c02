/** The report: the verdict, what to look at and where, and the numbers that both rest on. */

import {useAnswer} from '../../kit/answer';
import {ProblemCard} from '../../kit/problem';
import {dataSource, engine, type Opened} from '../../state/session';
import * as store from '../../state/store';
import {CallSites, Categories} from './call-sites';
import {Facts} from './facts';
import {Findings} from './findings';
import {LifetimeHistograms, SizeHistogram} from './histograms';
import {Iterations} from './iterations';
import type {Report} from './report';
import {TotalsChart} from './totals-chart';
import {TotalsTable} from './totals-table';
import {Verdict} from './verdict';
import {WholeCard} from './whole-card';

export function SummaryView({device}: {device: Opened}) {
  const section = device.manifest.sections.report;
  const answer = useAnswer(device, () => (section ? dataSource().json<Report>(store.file.peek(), 'report') : null));
  const {value, problem, isBusy} = answer.value;
  if (problem) return <ProblemCard problem={problem} />;
  if (!value) return <p class="reading">{isBusy ? 'reading the report …' : 'this file has no report'}</p>;
  return <Summary device={device} report={value} />;
}

function Summary({device, report}: {device: Opened; report: Report}) {
  const own = report.devices.find(one => one.device === device.device.device) ?? report.devices[0];
  const totals = useAnswer(device, () => engine().totalsOverTime(1200));
  const histograms = useAnswer(device, () => engine().histograms());
  return (
    <section class="view summary" aria-label="Summary">
      <Verdict device={device} report={report} own={own} />
      {own && (
        <>
          <Findings device={own} />
          <div class="card-columns">
            <div>
              <TotalsTable device={own} />
              <WholeCard report={report} device={device} />
              <CallSites device={own} />
              <Iterations device={own} />
              <Facts report={report} device={own} />
            </div>
            <div>
              {totals.value.value && <TotalsChart device={device} totals={totals.value.value} />}
              <Categories device={own} />
              {histograms.value.value && <SizeHistogram histograms={histograms.value.value} />}
              {histograms.value.value && <LifetimeHistograms histograms={histograms.value.value} />}
            </div>
          </div>
        </>
      )}
    </section>
  );
}
