import {describe, expect, it} from 'vitest';
import {namesOf} from './keys';

interface Press {
  key: string;
  code: string;
  held?: ('Shift' | 'Control' | 'Alt' | 'Meta' | 'AltGraph')[];
}

function names({key, code, held = []}: Press): string[] {
  return namesOf({
    key,
    code,
    shiftKey: held.includes('Shift'),
    ctrlKey: held.includes('Control'),
    metaKey: held.includes('Meta'),
    altKey: held.includes('Alt'),
    getModifierState: name => held.includes(name as 'Shift'),
  });
}

describe('a key press', () => {
  it('of a letter goes by its place, whatever the layout and Caps Lock', () => {
    expect(names({key: 'w', code: 'KeyW'})).toEqual(['w']);
    expect(names({key: 'W', code: 'KeyW'})).toEqual(['w']);
    expect(names({key: 'w', code: 'KeyW', held: ['Shift']})).toEqual(['W']);
    expect(names({key: 'ц', code: 'KeyW'})).toEqual(['w']);
    expect(names({key: 'z', code: 'KeyW'})).toEqual(['w']);
  });

  it('of a letter beside the 26 places is the letter, then the sign that is there', () => {
    expect(names({key: 'm', code: 'Semicolon'})).toEqual(['m']);
    expect(names({key: 'х', code: 'BracketLeft'})).toEqual(['х', '[']);
    expect(names({key: 'ü', code: 'BracketLeft'})).toEqual(['ü', '[']);
  });

  it('of a sign is the sign, then what a US keyboard has there', () => {
    expect(names({key: '/', code: 'Digit7', held: ['Shift']})).toEqual(['/', '7']);
    expect(names({key: '?', code: 'Minus', held: ['Shift']})[0]).toBe('?');
    expect(names({key: ',', code: 'Slash', held: ['Shift']})).toEqual([',', '?']);
    expect(names({key: '.', code: 'Slash'})).toEqual(['.', '/']);
    expect(names({key: '&', code: 'Digit1'})).toEqual(['&', '1']);
    expect(names({key: 'Escape', code: 'Escape'})).toEqual(['Escape']);
  });

  it('with AltGr or Option is a sign or nothing', () => {
    expect(names({key: '[', code: 'Digit8', held: ['Control', 'Alt', 'AltGraph']})).toEqual(['[']);
    expect(names({key: '[', code: 'Digit5', held: ['Alt']})).toEqual(['[']);
    expect(names({key: '1', code: 'Digit1', held: ['Alt']})).toEqual([]);
    expect(names({key: 'ArrowLeft', code: 'ArrowLeft', held: ['Alt']})).toEqual([]);
  });

  it('of Shift+F10 is the key for a menu', () => {
    expect(names({key: 'F10', code: 'F10', held: ['Shift']})).toEqual(['ContextMenu']);
    expect(names({key: 'ContextMenu', code: 'ContextMenu'})).toEqual(['ContextMenu']);
    expect(names({key: 'F10', code: 'F10'})).toEqual(['F10']);
  });

  it('of a shortcut of the browser is nothing', () => {
    expect(names({key: 'f', code: 'KeyF', held: ['Control']})).toEqual([]);
    expect(names({key: 't', code: 'KeyT', held: ['Meta']})).toEqual([]);
    expect(names({key: '-', code: 'Minus', held: ['Control']})).toEqual([]);
  });
});
