// Writes the table of docs/reference/errors.md from the error table of the build: node scripts/write-errors-page.js
import { readFileSync, writeFileSync } from 'node:fs';
import { errorTable } from '../build/errors.js';

const file = new URL('../docs/reference/errors.md', import.meta.url);
const page = readFileSync(file, 'utf8');
// "<name>" would be read as a tag and not shown.
const escapeTags = (text) => text.replaceAll('<', '&lt;');
const nameRetry = ({ retryable }) => (retryable === 'check' ? 'check first' : retryable ? 'yes' : 'no');
const rows = Object.entries(errorTable).map(
  ([code, row]) =>
    `| \`${code}\` | ${escapeTags(row.sentence)} | ${escapeTags(row.hint)} | ${row.http} | ${row.rpc} | ${nameRetry(row)} |`,
);
const head = '| code | what happened | what to do | HTTP | JSON-RPC | retry |\n|---|---|---|---|---|---|\n';
const start = page.indexOf('| code |');
const end = page.indexOf('\n\n', start);
const before = start === -1 ? `${page.trimEnd()}\n\n` : page.slice(0, start);
const after = start === -1 || end === -1 ? '\n' : page.slice(end);
writeFileSync(file, `${before}${head}${rows.join('\n')}${after}`);
