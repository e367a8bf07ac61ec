import { formatBytes, formatCount, formatDuration, plural } from '../parts/format.ts';
import {
  capitalize,
  describePlace,
  type JournalEntry,
  nameSession,
  readNumber,
  readText,
  type Sentence,
  withWord,
} from './entry-fields.ts';

function describeSession(entry: JournalEntry, verb: string): string {
  const name = readText(entry, 'name') || nameSession(entry, 'sessionId', '');
  const parent = entry['parentId'] === undefined ? '' : ` by session ${nameSession(entry, 'parentId')}`;
  const level = readText(entry, 'trustLevel');
  const facts = [
    withWord(entry, 'in workspace', 'workspaceId'),
    withWord(entry, 'for user', 'userId'),
    level === '' ? '' : `, trust ${level}`,
  ];
  return `Session ${name} was ${verb}${parent}${facts.join('')}`;
}

/** Tells what a session has left after a restriction. Older lines do not say what has changed. */
function describeRestriction(entry: JournalEntry): string {
  const left: Readonly<Record<string, string>> = {
    trustLevel: `trust ${readText(entry, 'trustLevel')}`,
    ttlSeconds: `idle limit ${formatDuration((readNumber(entry, 'ttlSeconds') ?? 0) * 1000)}`,
    servers: `servers ${readText(entry, 'servers') || 'none'}`,
    permissions: `permissions ${readText(entry, 'permissions') || 'none'}`,
  };
  const changed = readText(entry, 'changed')
    .split(' ')
    .flatMap((name) => left[name] ?? []);
  const name = readText(entry, 'name') || nameSession(entry, 'sessionId', '');
  return `Session ${name} was restricted${changed.length === 0 ? '' : `, and has now: ${changed.join(', ')}`}`;
}

export const sessionSentences: ReadonlyMap<string, Sentence> = new Map<string, Sentence>([
  ['created', (entry) => describeSession(entry, 'opened')],
  ['restricted', describeRestriction],
  ['ended', () => 'The session was ended'],
  ['expired', () => 'The session expired'],
  ['evicted', () => 'The session was removed to make room for another one'],
  ['revoked', () => 'The session ended because its key was revoked'],
  ['closed', () => 'The session ended because its client disconnected'],
  ['token-made', () => 'Another token was made for the session'],
  [
    'servers-resolved',
    (entry) => `Servers were handed out to another program: ${readText(entry, 'servers') || 'none'}`,
  ],
  [
    'message-sent',
    (entry) =>
      `${readText(entry, 'by') === '' ? 'The session' : 'The operator'} sent a message of ${formatBytes(readNumber(entry, 'bytes') ?? 0)} to session ${nameSession(entry, 'toSessionId')}`,
  ],
  [
    'reported',
    (entry) =>
      `Session ${nameSession(entry, 'sessionId', '')} returned its result to its parent session ${nameSession(entry, 'parentId')}`,
  ],
  ['resolved', (entry) => `The reference ${readText(entry, 'asked')} of another session led to this session`],
  [
    'not-resolved',
    (entry) =>
      `The session asked for session ${readText(entry, 'asked')} and did not get it: ${readText(entry, 'code')}`,
  ],
  ['context-given', () => 'The model received its policies and objectives'],
  ['context-noticed', () => 'The model received its policies and objectives again because they had changed'],
  ['folder-made', (entry) => `The session got its own folder${describeFolder(entry)}`],
  ['folder-kept', (entry) => `The folder of the session was kept because of unmerged changes${describeFolder(entry)}`],
  [
    'folder-merged',
    (entry) =>
      `The changes of the session were merged into workspace ${readText(entry, 'workspaceId')}${withWord(entry, 'files:', 'detail')}`,
  ],
  [
    'folder-removed',
    (entry) => `The folder of the session was deleted${withWord(entry, 'in workspace', 'workspaceId')}`,
  ],
]);

function describeFolder(entry: JournalEntry): string {
  return `${withWord(entry, 'in workspace', 'workspaceId')}${withWord(entry, 'as', 'detail')}`;
}

/** Tells where a process runs. The sandbox has the name of its runner. */
function describeRunner(runner: string): string {
  return runner === 'plain' || runner === '' ? 'without a sandbox' : `in a sandbox (${runner})`;
}

function describeProcess(entry: JournalEntry): string {
  const pid = readText(entry, 'pid');
  return `Process${pid === '' ? '' : ` ${pid}`} of ${describePlace(entry)}`;
}

export const processSentences: ReadonlyMap<string, Sentence> = new Map<string, Sentence>([
  [
    'started',
    (entry) =>
      `${describeProcess(entry)} started ${describeRunner(readText(entry, 'runner'))} after ${formatDuration(readNumber(entry, 'ms') ?? 0)}`,
  ],
  ['start-failed', (entry) => `${describeProcess(entry)} could not be started${withWord(entry, 'because:', 'detail')}`],
  [
    'ended',
    (entry) =>
      `${describeProcess(entry)} ended${withWord(entry, 'with code', 'code')}${withWord(entry, 'by signal', 'signal')}${withWord(entry, 'because:', 'detail')}`,
  ],
  [
    'stderr',
    (entry) => {
      const dropped = readNumber(entry, 'dropped');
      const before = dropped === undefined ? '' : ` (${plural(dropped, 'line')} before it left out)`;
      return `${capitalize(describePlace(entry))} wrote to stderr: ${readText(entry, 'line')}${before}`;
    },
  ],
  ['endless-line', (entry) => `${describeProcess(entry)} was ended because it wrote a line that is too long`],
  ['unreadable-lines', (entry) => `${describeProcess(entry)} was ended because it wrote too many unreadable lines`],
  [
    'noise',
    (entry) =>
      `Ambit ignored ${plural(readNumber(entry, 'count') ?? 0, 'message')} of ${describePlace(entry)}: ${readText(entry, 'what')}`,
  ],
]);

export const egressSentences: ReadonlyMap<string, Sentence> = new Map<string, Sentence>([
  [
    'refused',
    (entry) => {
      const times = readNumber(entry, 'times') ?? 1;
      const what = times > 1 ? `${formatCount(times)} connections` : 'A connection';
      const verb = times > 1 ? 'were' : 'was';
      return `${what} of ${describePlace(entry)} to ${readText(entry, 'to')} ${verb} refused${withWord(entry, 'because:', 'detail')}`;
    },
  ],
  [
    'closed',
    (entry) =>
      `The network access of ${describePlace(entry)} ended: ${readText(entry, 'allowed') || 0} connections allowed, ${readText(entry, 'refused') || 0} refused${withWord(entry, 'reached:', 'to')}`,
  ],
]);
