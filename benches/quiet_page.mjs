// A page in Chromium that nothing listens to but for its input: a debugger with the network domain on, as playwright's, keeps a copy of
// every response in the page's process, 35 MiB of a recording of ten million entries.

import {spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const WAIT_MS = 120_000;

export class QuietPage {
  /** Opens an empty page of so many CSS pixels. */
  static async open(executable, {width, height}) {
    const page = new QuietPage(executable);
    const {targetInfos} = await page.#send('Target.getTargets');
    const {targetId} = targetInfos.find(({type}) => type === 'page');
    page.session = (await page.#send('Target.attachToTarget', {targetId, flatten: true})).sessionId;
    await page.#ask('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: false});
    return page;
  }

  constructor(executable) {
    this.profile = mkdtempSync(join(tmpdir(), 'highwater-chromium-'));
    const options = ['--headless=new', '--no-sandbox', '--disable-gpu', `--user-data-dir=${this.profile}`];
    this.child = spawn(executable, [...options, '--remote-debugging-pipe', 'about:blank'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    });
    this.waiting = new Map();
    this.last = 0;
    let text = '';
    this.child.stdio[4].setEncoding('utf8').on('data', part => {
      const messages = (text + part).split('\0');
      text = messages.pop();
      for (const {id, result, error} of messages.map(message => JSON.parse(message))) {
        if (error) this.waiting.get(id)?.reject(new Error(error.message));
        else this.waiting.get(id)?.resolve(result);
        this.waiting.delete(id);
      }
    });
  }

  async close() {
    const ended = new Promise(done => this.child.once('exit', done));
    await this.#send('Browser.close');
    await ended;
    rmSync(this.profile, {recursive: true, force: true, maxRetries: 20, retryDelay: 100});
  }

  goto(url) {
    return this.#ask('Page.navigate', {url});
  }

  /** Runs a function without arguments in every page from now on, before the page's own programs. */
  async before(work) {
    await this.#ask('Page.enable', {});
    await this.#ask('Page.addScriptToEvaluateOnNewDocument', {source: `(${work})()`});
  }

  /** The value of a function without arguments that runs in the page. */
  async evaluate(work) {
    const expression = `(${work})()`;
    const {result} = await this.#ask('Runtime.evaluate', {expression, returnByValue: true, awaitPromise: true});
    return result.value;
  }

  /** The first value of a function without arguments that counts as true. */
  async value(work) {
    const end = Date.now() + WAIT_MS;
    for (;;) {
      const value = await this.evaluate(work);
      if (value) return value;
      if (Date.now() > end) throw new Error(`no value of ${work}`);
      await new Promise(go => setTimeout(go, 50));
    }
  }

  /** Waits until the page has an element. */
  waitFor(selector) {
    return this.value(`() => document.querySelector(${JSON.stringify(selector)}) !== null`);
  }

  /** Where the first such element is, in CSS pixels. */
  box(selector) {
    return this.evaluate(`() => {
      const {x, y, width, height} = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect();
      return {x, y, width, height};
    }`);
  }

  move(x, y) {
    Object.assign(this, {x, y});
    return this.#mouse('mouseMoved', this.isDown ? {button: 'left', buttons: 1} : {});
  }

  down() {
    this.isDown = true;
    return this.#mouse('mousePressed', {button: 'left', buttons: 1, clickCount: 1});
  }

  up() {
    this.isDown = false;
    return this.#mouse('mouseReleased', {button: 'left', clickCount: 1});
  }

  wheel(deltaY) {
    return this.#mouse('mouseWheel', {deltaX: 0, deltaY});
  }

  /** Presses a key of one digit. */
  async press(digit) {
    const key = {key: digit, code: `Digit${digit}`};
    await this.#ask('Input.dispatchKeyEvent', {type: 'keyDown', text: digit, ...key});
    await this.#ask('Input.dispatchKeyEvent', {type: 'keyUp', ...key});
  }

  /** Resident bytes of the largest renderer, now and at most. */
  async memory() {
    const {processInfo} = await this.#send('SystemInfo.getProcessInfo');
    const renderers = processInfo.filter(({type}) => type === 'renderer').map(({id}) => {
      const status = readFileSync(`/proc/${id}/status`, 'utf8');
      const bytes = name => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)[1]) * 1024;
      return {now: bytes('VmRSS'), peak: bytes('VmHWM')};
    });
    return renderers.reduce((most, one) => (one.peak > most.peak ? one : most));
  }

  #mouse(type, more) {
    return this.#ask('Input.dispatchMouseEvent', {type, x: this.x, y: this.y, ...more});
  }

  #ask(method, params) {
    return this.#send(method, params, this.session);
  }

  #send(method, params = {}, sessionId = undefined) {
    const id = ++this.last;
    this.child.stdio[3].write(`${JSON.stringify({id, method, params, sessionId})}\0`);
    return new Promise((resolve, reject) => this.waiting.set(id, {resolve, reject}));
  }
}
