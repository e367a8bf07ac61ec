// node asker.js MODULE FOLDER QUESTIONS: calls a SafeRoot once for each [operation, ...arguments] of QUESTIONS, and
// prints the codes of the refusals, or "done", as JSON.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [module, folder, questions] = process.argv.slice(2);
const { openRoot } = await import(pathToFileURL(module).href);
const root = openRoot(folder);
const outcomes = [];
for (const [operation, ...args] of JSON.parse(readFileSync(questions, 'utf8'))) {
  outcomes.push(
    await root[operation](...args).then(
      () => 'done',
      (error) => error.code ?? String(error),
    ),
  );
}
console.log(JSON.stringify(outcomes));
