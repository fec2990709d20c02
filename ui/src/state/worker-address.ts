/** Where the program of the workers is: a file of the server, or a part of a page that is one file. */
export function workerAddress(): URL {
  const url = (globalThis as {__highwaterWorkerUrl?: string}).__highwaterWorkerUrl ?? 'worker.js';
  return new URL(url, document.baseURI);
}
