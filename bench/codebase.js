// node bench/codebase.js: session_codebase_search in a repository of 5000 files, and how good its answers are, beside grep.
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ambitFiles } from './files-subjects.js';

const project = fileURLToPath(new URL('..', import.meta.url));
const packages = join(project, 'node_modules');
const wanted = 5000;
const questionsFile = join(project, 'test/workspaces/codebase/questions.json');
const timed = [
  'how are cookies parsed from the request header',
  'where is the sqlite database opened',
  'retry a failed redis connection with backoff',
  'validate the signature of a json web token',
  'convert a yaml document to a string',
  'which headers does a cross-origin request allow',
  'resolve the path of a module',
  'split a regular expression into tokens',
];

export async function measureCodebase() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-bench-codebase-')));
  try {
    return { speed: await measureSpeed(folder), quality: await measureQuality(folder) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measureSpeed(folder) {
  const workspace = join(folder, 'many');
  const { files, bytes } = copySources(workspace);
  const ambit = await ambitFiles(join(folder, 'speed'), workspace);
  try {
    const began = performance.now();
    const first = await ambit.ask(timed[0]);
    const firstMs = performance.now() - began;
    while ((await ambit.ask(timed[0])).index.state === 'building') await pause(100);
    const buildMs = performance.now() - began;
    const times = [];
    for (let round = 0; round < 6; round++) {
      for (const question of timed) {
        const started = performance.now();
        const { matches } = await ambit.ask(question);
        if (matches.length === 0) throw new Error(`No answer to "${question}".`);
        if (round > 0) times.push(performance.now() - started);
      }
    }
    times.sort((one, other) => one - other);
    const at = (part) => times[Math.floor(times.length * part)];
    const index = {
      bytes: sizeOf(join(ambit.dataDir, 'search')),
      share: sizeOf(join(ambit.dataDir, 'search')) / bytes,
    };
    return { files, bytes, firstMs, firstMatches: first.matches.length, buildMs, p50: at(0.5), p95: at(0.95), index };
  } finally {
    await ambit.close();
  }
}

async function measureQuality(folder) {
  const workspace = join(packages, 'zod/src');
  const ambit = await ambitFiles(join(folder, 'quality'), workspace);
  const questions = JSON.parse(readFileSync(questionsFile, 'utf8'));
  try {
    while ((await ambit.ask('schema')).index.state === 'building') await pause(100);
    let search = 0;
    let grep = 0;
    for (const { question, answers } of questions) {
      const { matches } = await ambit.ask(question, 5);
      if (matches.some((each) => isRight(each, answers))) search++;
      if ((await grepPassages(ambit, question)).some((each) => isRight(each, answers))) grep++;
    }
    return { questions: questions.length, search, grep };
  } finally {
    await ambit.close();
  }
}

const isRight = ({ path, text }, answers) => answers.some((each) => each.path === path && text.includes(each.text));

/** Grep for every word of at least four letters; the five lines with most of the words, and ten lines around each. */
async function grepPassages(ambit, question) {
  const words = [...new Set(question.toLowerCase().match(/[a-z]{4,}/g))];
  const { matches } = await ambit.grepAround(words.join('|'));
  const count = ({ text }) => words.filter((word) => text.toLowerCase().includes(word)).length;
  return matches
    .sort((one, other) => count(other) - count(one))
    .slice(0, 5)
    .map(({ path, before, text, after }) => ({
      path,
      text: [...before, { text }, ...after].map((line) => line.text).join('\n'),
    }));
}

/** Sources and documents of the installed packages, some of them twice. */
function copySources(workspace) {
  const names = readdirSync(packages, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(?:[cm]?[jt]s|md|json)$/.test(name) && !/\.d\.[cm]?ts$/.test(name))
    .sort();
  const sources = names.filter((name) => {
    const stats = statSync(join(packages, name));
    return stats.isFile() && stats.size > 200 && stats.size < 200_000;
  });
  let bytes = 0;
  for (let at = 0; at < wanted; at++) {
    const name = sources[at % sources.length];
    const target = join(workspace, at < sources.length ? 'one' : 'two', name.replaceAll('node_modules', 'packages'));
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(join(packages, name), target);
    bytes += statSync(target).size;
  }
  return { files: wanted, bytes };
}

const sizeOf = (folder) => readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);

export function codebaseTable({ speed, quality }) {
  const { files, bytes, firstMs, firstMatches, buildMs, p50, p95, index } = speed;
  const megabytes = (count) => `${(count / 1e6).toFixed(1)} MB`;
  return [
    `Codebase search over stdio, ${files} files with ${megabytes(bytes)}:`,
    `  first answer, without an index    ${firstMs.toFixed(0)} ms, ${firstMatches} passages   (goal 2000 ms)`,
    `  index complete after              ${(buildMs / 1000).toFixed(1)} s`,
    `  answer from the index             ${p50.toFixed(0)} ms, p95 ${p95.toFixed(0)} ms   (goal 50 ms)`,
    `  index                             ${megabytes(index.bytes)}, ${index.share.toFixed(2)} of the text   (goal 2)`,
    `Right passage among the first five for ${quality.questions} questions about zod: ${quality.search} (goal 24); grep for the words of the question: ${quality.grep}.`,
  ].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(codebaseTable(await measureCodebase()));
