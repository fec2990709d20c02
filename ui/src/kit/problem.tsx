/** An error, as the terminal shows it: what, why, and what to do. */

import type {Problem} from '../data/source';
import {Prose} from './prose';

export function ProblemCard({problem}: {problem: Problem}) {
  return (
    <div class="problem-card" role="alert">
      <p>
        <b>error:</b> <Prose text={problem.message} />
      </p>
      {problem.causes.map((cause, i) => (
        <p key={i} class="cause">
          caused by: <Prose text={cause} />
        </p>
      ))}
      {problem.hint && (
        <p>
          <b>hint:</b> <Prose text={problem.hint} />
        </p>
      )}
    </div>
  );
}
