/** Asks for the newest only: a slider asks faster than anybody answers. */

/**
 * Gives what asks: while one question is being answered, of those that come only the last one waits. `settle` gets each answer;
 * `ask` must not fail.
 */
export function latest<Q, A>(
  ask: (question: Q) => Promise<A>,
  settle: (answer: A, question: Q) => void,
): (question: Q) => void {
  let isAsking = false;
  let waiting: {question: Q} | null = null;
  const next = async () => {
    isAsking = true;
    while (waiting) {
      const {question} = waiting;
      waiting = null;
      const answer = await ask(question);
      settle(answer, question);
    }
    isAsking = false;
  };
  return question => {
    waiting = {question};
    if (!isAsking) void next();
  };
}
