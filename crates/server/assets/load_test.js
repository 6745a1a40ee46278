// The last load test: kept by the server, and laid over the chart of the processor against viewers.

import { base, change, getJson } from './api.js';
import { copyLine } from './copy_line.js';
import { setText } from './dom.js';
import { when } from './format.js';

const URL_OF_TEST = `${base}/api/v1/load-test`;
const json = { 'content-type': 'application/json' };

export class LoadTest {
  #changes;
  #line = '';

  /**
   * `parts`: the elements `name`, `verdict`, `file`, `remove`, `line`. `onSteps(steps)` gets the steps of
   * the run, which says how many can be shown.
   */
  constructor(parts, { onSteps, onProblem }) {
    Object.assign(this, { parts, onSteps, onProblem });
    parts.file.addEventListener('change', () => this.#upload());
    parts.remove.addEventListener('click', () => this.#send({ method: 'DELETE' }));
  }

  /** Asks for the run if `changes`, the server's count of them, is another one than before. Without a run
   * there is no count. */
  async update(changes) {
    if (changes === this.#changes) return;
    this.#changes = changes;
    if (changes === undefined) {
      this.#show(null);
      return;
    }
    try {
      this.#show(await getJson(URL_OF_TEST));
    } catch (error) {
      if (error.status === 404) this.#show(null);
      else this.#changes = undefined;
    }
  }

  /** Shows the line that makes a run with viewers of stream `name`. */
  offer(name, { ports, pid }) {
    const line = `glassline bench viewers http://127.0.0.1:${ports.http}/${encodeURIComponent(name)}/whep`
      + ` --ramp 0:100:25 --server-pid ${pid} --report-to ${location.origin}${base}`;
    if (line === this.#line) return;
    this.#line = line;
    this.parts.line.replaceChildren(copyLine(line));
  }

  #show(run) {
    this.onSteps(run?.steps ?? []);
    const date = run?.started ? new Date(run.started) : null;
    const made = date && !Number.isNaN(date.getTime()) ? ` of ${when(date).slice(0, -3)}` : '';
    setText(this.parts.name, run ? `with the load test${made}` : '');
    setText(this.parts.verdict, run ? [run.label, run.verdict].filter(Boolean).join(': ') : '');
    this.parts.verdict.hidden = !run;
    this.parts.remove.hidden = !run;
  }

  async #upload() {
    const { file: input } = this.parts;
    const [file] = input.files;
    input.value = '';
    if (!file) return;
    let body;
    try {
      // A whole report may be larger than a request; the server keeps no more than this.
      const { label, protocol, started, verdict, steps } = JSON.parse(await file.text());
      const kept = steps.map(({ viewers, server_cpu_percent, delivered_ratio }) => ({ viewers, server_cpu_percent, delivered_ratio }));
      body = JSON.stringify({ label, protocol, started, verdict, steps: kept });
    } catch (error) {
      this.onProblem(new Error(`${file.name} is no report of glassline bench viewers --json: ${error.message}`));
      return;
    }
    await this.#send({ method: 'PUT', headers: json, body });
  }

  async #send(options) {
    try {
      await change(URL_OF_TEST, options);
    } catch (error) {
      this.onProblem(error);
    }
  }
}
