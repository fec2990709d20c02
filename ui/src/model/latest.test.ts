import {expect, it} from 'vitest';
import {latest} from './latest';

it('asks the newest of those that came meanwhile', async () => {
  const answers: (() => void)[] = [];
  const asked: number[] = [];
  const settled: number[] = [];
  const ask = latest(
    (question: number) => {
      asked.push(question);
      return new Promise<number>(done => answers.push(() => done(question * 10)));
    },
    answer => settled.push(answer),
  );
  for (const question of [1, 2, 3]) ask(question);
  expect(asked).toEqual([1]);
  answers[0]();
  await new Promise(done => setTimeout(done));
  expect([asked, settled]).toEqual([[1, 3], [10]]);
  answers[1]();
  await new Promise(done => setTimeout(done));
  ask(4);
  expect([asked, settled]).toEqual([
    [1, 3, 4],
    [10, 30],
  ]);
});
