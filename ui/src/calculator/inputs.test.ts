import {describe, expect, it} from 'vitest';
import {type Place, placeOf, textOf} from './address';
import {commandOf, options, requestOf, withWords} from './inputs';

const field = {group: '', label: ''};
options.value = [
  {name: 'batch', help: '', kind: 'count', usual: '1', field},
  {name: 'seq', help: '', kind: 'count', usual: '', field},
  {name: 'optimizer', help: '', kind: 'word', usual: 'adamw', field},
  {name: 'checkpointing', help: '', kind: 'flag', usual: 'false', field},
  {name: 'lora-rank', help: '', kind: 'count', usual: '', field},
  {name: 'lora-targets', help: '', kind: 'word', usual: 'query-value', needs: 'lora-rank', field},
  {name: 'quantise', help: '', kind: 'word', usual: '', needs: 'lora-rank', field},
];

describe('the address', () => {
  const places: Place[] = [
    {model: {named: 'gpt2'}, words: {}, theme: 'system'},
    {model: {named: 'a&b=c#d'}, words: {batch: '16', checkpointing: 'true', zero: '3'}, theme: 'dark'},
    {model: {described: '{"config":{"x":12345678901234567890}}', from: 'my model.json'}, words: {}, theme: 'light'},
    {model: {lost: 'big.json'}, words: {seq: '2048'}, theme: 'system'},
  ];

  it('gives back what was put into it', () => {
    for (const place of places) expect(placeOf(`#${textOf(place)}`)).toEqual(place);
  });

  it('leaves out a description that is too long, and says so', () => {
    const described = JSON.stringify({config: {labels: 'x'.repeat(10_000)}});
    const text = textOf({model: {described, from: 'long.json'}, words: {batch: '2'}, theme: 'system'});
    expect(text.length).toBeLessThan(100);
    expect(placeOf(text)).toEqual({model: {lost: 'long.json'}, words: {batch: '2'}, theme: 'system'});
  });

  it('takes no text for a model that would be more than one', () => {
    for (const file of ['1', '"gpt2"', 'null', '{}, "batch": 5', '{']) {
      expect(placeOf(`file=${encodeURIComponent(file)}`).model).toBeNull();
    }
    expect(placeOf('')).toEqual({model: null, words: {}, theme: 'system'});
    expect(placeOf('theme=pink').theme).toBe('system');
  });
});

describe('a request', () => {
  it('keeps what is not as usual', () => {
    expect(withWords({}, {batch: '4', seq: '', optimizer: 'adamw'})).toEqual({batch: '4'});
    expect(withWords({batch: '4'}, {batch: '1', checkpointing: 'true'})).toEqual({checkpointing: 'true'});
    expect(withWords({checkpointing: 'true'}, {checkpointing: 'false'})).toEqual({});
  });

  it('is JSON in which what a file said is as it was', () => {
    expect(requestOf({named: 'gpt2'}, {}, false)).toBe('{"model":"gpt2"}');
    const described = '{"counted":{"parameters":18446744073709551615}}';
    const request = requestOf({described, from: 'a'}, {batch: '2'}, true);
    expect(request).toBe(`{"model":${described},"batch":"2","fit":true}`);
    expect(JSON.parse(requestOf({lost: 'a'}, {batch: '"}'}, false))).toEqual({model: null, batch: '"}'});
  });

  it('says nothing of adapters that are not there', () => {
    const words = {'lora-targets': 'attention', quantise: 'nf4', batch: '2'};
    expect(JSON.parse(requestOf({named: 'gpt2'}, words, false))).toEqual({model: 'gpt2', batch: '2'});
    const withRank = {...words, 'lora-rank': '8'};
    expect(JSON.parse(requestOf({named: 'gpt2'}, withRank, false))).toEqual({model: 'gpt2', ...withRank});
  });

  it('is a command line, too', () => {
    const words = {batch: '4', checkpointing: 'true'};
    expect(commandOf({named: 'gpt2'}, words)).toBe('highwater estimate gpt2 --batch 4 --checkpointing');
    expect(commandOf({described: '{}', from: "it's.json"}, {})).toBe("highwater estimate 'it'\\''s.json'");
  });
});
