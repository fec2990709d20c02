/** Asks for the newest only: a slider asks faster than anybody answers. */

/** Least time between two answers that are read, in milliseconds: nobody reads faster, and each leaves garbage in two threads. */
export const READING_MS = 300;

/**
 * Gives what asks: while one question is being answered, of those that come only the last one waits. `settle` gets each answer;
 * `ask` must not fail. After an answer it rests for `restMs` before it asks again.
 */
export function latest<Q, A>(
  ask: (question: Q) => Promise<A>,
  settle: (answer: A, question: Q) => void,
  restMs = 0,
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
      if (restMs > 0) await new Promise(go => setTimeout(go, restMs));
    }
    isAsking = false;
  };
  return question => {
    waiting = {question};
    if (!isAsking) void next();
  };
}
