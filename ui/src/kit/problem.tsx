/** An error, as the terminal shows it: what, why, and what to do. */

import type {Problem} from '../data/source';

export function ProblemCard({problem}: {problem: Problem}) {
  return (
    <div class="problem-card" role="alert">
      <p>
        <b>error:</b> {problem.message}
      </p>
      {problem.causes.map((cause, i) => (
        <p key={i} class="cause">
          caused by: {cause}
        </p>
      ))}
      {problem.hint && (
        <p>
          <b>hint:</b> {problem.hint}
        </p>
      )}
    </div>
  );
}
