import {describe, expect, it} from 'vitest';
import {checkedPattern, EDITORS, editorAddress} from './editor';

const [{pattern: VSCODE}, {pattern: IDEA}] = EDITORS;

describe('a frame in an editor', () => {
  it('is an address with its file and its line', () => {
    expect(editorAddress(VSCODE, '/home/me/train.py', 12)).toBe('vscode://file/home/me/train.py:12');
    expect(editorAddress(IDEA, '/home/me/train.py', 12)).toBe('idea://open?file=%2Fhome%2Fme%2Ftrain.py&line=12');
    expect(editorAddress(VSCODE, 'C:\\me\\train.py', 3)).toBe('vscode://file/C%3A/me/train.py:3');
    expect(editorAddress(IDEA, 'C:\\me\\train.py', 3)).toBe('idea://open?file=C%3A%2Fme%2Ftrain.py&line=3');
    expect(editorAddress('vscode://vscode-remote/ssh-remote+box{file}:{line}', '/x.py', 0)).toBe(
      'vscode://vscode-remote/ssh-remote+box/x.py:1',
    );
  });

  it('has none where its path is not whole, or is no source', () => {
    for (const file of [
      'train.py',
      '<string>',
      '??',
      '',
      '/lib/libtorch.so',
      '/lib/libc.so.6',
      'javascript:alert(1)',
    ]) {
      expect(editorAddress(VSCODE, file, 1), file).toBeUndefined();
    }
  });

  it('stays one address of the editor, whatever the file is called', () => {
    const names = [
      '/x"><script>alert(1)</script>.py',
      '/a b&line=9#?x.py',
      '/javascript:alert(1)',
      '/%0a\n\r\t/x',
      "/$&$'{line}{file}",
      '/\u202Eyp.x',
    ];
    for (const name of names) {
      for (const pattern of [VSCODE, IDEA]) {
        const address = editorAddress(pattern, name, 7)!;
        const url = new URL(address);
        expect(['vscode:', 'idea:'], address).toContain(url.protocol);
        expect(address).toMatch(/^[\x21-\x7e]+$/);
        expect(address).not.toMatch(/["<>\\]/);
        expect(url.hash).toBe('');
        if (pattern === IDEA) expect(url.searchParams.get('line')).toBe('7');
        else expect(decodeURIComponent(url.pathname)).toBe(`${name}:7`);
      }
    }
    expect(editorAddress(VSCODE, '/\ud800.py', 1)).toBeUndefined();
  });

  it('is opened by an editor only', () => {
    for (const pattern of [
      'javascript://%0aalert(1){file}',
      'JavaScript:alert(1)//{file}',
      'http://evil.example/{file}',
      'https://evil.example/{file}',
      'file://{file}',
      'data:text/html,{file}',
      ' {file}',
      'vscode:{file}',
      'vscode://file',
    ]) {
      expect(() => checkedPattern(pattern), pattern).toThrow();
      expect(editorAddress(pattern, '/x.py', 1), pattern).toBeUndefined();
    }
    expect(checkedPattern('  cursor://file{file}:{line} ')).toBe('cursor://file{file}:{line}');
  });
});
