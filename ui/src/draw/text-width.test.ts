import {expect, it} from 'vitest';
import {textWidth} from './text-width';

it('measures a text once in each font, and forgets when there are too many', () => {
  let asked = 0;
  const pen = {
    font: '11px sans-serif',
    measureText: (text: string) => {
      asked++;
      return {width: text.length * Number.parseInt(pen.font, 10)};
    },
  };
  expect([textWidth(pen, 'peak'), textWidth(pen, 'peak'), asked]).toEqual([44, 44, 1]);
  pen.font = '20px sans-serif';
  expect([textWidth(pen, 'peak'), asked]).toEqual([80, 2]);
  for (let i = 0; i < 5000; i++) textWidth(pen, String(i));
  expect([textWidth(pen, 'peak'), asked]).toEqual([80, 5003]);
});
