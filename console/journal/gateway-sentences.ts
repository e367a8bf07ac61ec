import { formatBytes, formatCount, plural } from '../parts/format.ts';
import { type JournalEntry, nameOf, readNumber, readText, type Sentence, withWord } from './entry-fields.ts';

function describeUser(entry: JournalEntry): string {
  return `User ${readText(entry, 'userId') || 'unknown'}`;
}

function describeKey(verb: string): Sentence {
  return (entry) => `API key ${readText(entry, 'keyId')} of user ${readText(entry, 'userId') || 'unknown'} was ${verb}`;
}

function describeCredential(verb: string): Sentence {
  return (entry) =>
    `The credential ${readText(entry, 'name')} of user ${readText(entry, 'userId')} for server ${readText(entry, 'server')} was ${verb}`;
}

function describeLogin(verb: string): Sentence {
  return (entry) =>
    `The login of user ${readText(entry, 'userId')} at server ${readText(entry, 'server')} ${verb}${withWord(entry, 'because:', 'why')}`;
}

function describePolicy(entry: JournalEntry): string {
  return `${readText(entry, 'name')}${withWord(entry, 'for', 'scope')}`;
}

/** The requests about one session, by method and the last part of the path. */
const sessionRequests: ReadonlyMap<string, string> = new Map([
  ['DELETE', 'end'],
  ['PATCH', 'restrict'],
  ['POST messages', 'send a message to'],
  ['POST merge', 'merge the changes of'],
  ['DELETE folder', 'discard the folder of'],
  ['POST tokens', 'make another token for'],
  ['POST servers', 'get the servers of'],
  ['POST explain', 'test the rules for a call of'],
]);

function describeControl(entry: JournalEntry): string {
  const status = readNumber(entry, 'status') ?? 0;
  const end = status >= 400 ? `, which was refused with status ${status}` : '';
  const [, id = '', part = ''] = /^\/api\/v1\/sessions\/([^/]+)(?:\/([a-z]+))?$/.exec(readText(entry, 'path')) ?? [];
  const wish = sessionRequests.get(`${readText(entry, 'method')} ${part}`.trim());
  if (id !== '' && wish !== undefined) {
    return `An operator asked to ${wish} session ${nameOf(id)}${withWord(entry, 'with', 'by')}${end}`;
  }
  // The line itself has the whole id.
  const path = readText(entry, 'path').replace(/\b([0-9a-f]{8})[0-9a-f]{24}\b/g, '$1…');
  const what = `${readText(entry, 'method')} ${path}`;
  return `${what} was requested through the control API${withWord(entry, 'by', 'by')}${end}`;
}

function byWhom(entry: JournalEntry): string {
  return withWord(entry, 'by', 'by');
}

/** The sentences of lines about the gateway itself, by their event. */
export const gatewaySentences: ReadonlyMap<string, Sentence> = new Map<string, Sentence>([
  ['opened', (entry) => `A gateway or a command started as process ${readText(entry, 'pid')}`],
  ['closed', (entry) => `The gateway or command of process ${readText(entry, 'pid')} ended normally`],
  [
    'entries-lost',
    (entry) =>
      `${plural(readNumber(entry, 'entries') ?? 0, 'line')} of the journal could not be written${withWord(entry, 'since', 'since')}${withWord(entry, 'because:', 'error')}`,
  ],
  [
    'journal-deleted',
    (entry) =>
      `${plural(readNumber(entry, 'files') ?? 0, 'old journal file')} of ${formatBytes(readNumber(entry, 'bytes') ?? 0)} were deleted${withWord(entry, 'with lines until', 'until')}`,
  ],
  ['reloaded', (entry) => `The configuration was reloaded; changed servers: ${readText(entry, 'changed') || 'none'}`],
  ['control', describeControl],
  [
    'tools-withheld',
    (entry) => `Tools of server ${readText(entry, 'server')} were hidden: ${readText(entry, 'tools')}`,
  ],
  [
    'console-link-made',
    (entry) => `A link that signs in to the console as ${readText(entry, 'role')} was made${byWhom(entry)}`,
  ],
  ['console-opened', (entry) => `A console was signed in as ${readText(entry, 'role')}${byWhom(entry)}`],
  ['console-revoked', (entry) => `A console was signed out${byWhom(entry)}`],
  ['user-added', (entry) => `${describeUser(entry)} was added`],
  ['user-changed', (entry) => `${describeUser(entry)} was changed`],
  ['user-removed', (entry) => `${describeUser(entry)} was removed`],
  ['key-created', describeKey('created')],
  ['key-rotated', describeKey('given a new secret')],
  ['key-revoked', describeKey('revoked')],
  ['credential-set', describeCredential('stored')],
  ['credential-removed', describeCredential('deleted')],
  ['login-wanted', describeLogin('is required')],
  ['login-started', describeLogin('was started')],
  ['login-made', describeLogin('was completed')],
  ['login-renewed', describeLogin('was renewed')],
  ['login-lost', describeLogin('can no longer be used')],
  ['login-removed', describeLogin('was deleted')],
  ['policy-set', (entry) => `Policy ${describePolicy(entry)} was set`],
  ['policy-removed', (entry) => `Policy ${describePolicy(entry)} was removed`],
  ['objective-added', (entry) => `Objective ${describePolicy(entry)} was added`],
  ['objective-removed', (entry) => `Objective ${describePolicy(entry)} was removed`],
]);

const refusalReasons: Readonly<Record<string, string>> = {
  credential: 'its credential is missing or invalid',
  admin: 'it has no administrator credential',
  host: 'its Host header is not accepted',
  origin: 'its web origin is not allowed',
  address: 'its path does not exist',
  method: 'the path does not support its HTTP method',
  type: 'its content type is not JSON',
  length: 'it is too long',
  message: 'it is not a valid message',
  envelope: 'its headers or protocol version do not fit',
  batch: 'it is a batch where a single message is required',
  request: 'it is not a valid HTTP request',
  connection: 'there are too many connections',
  overload: 'too many bytes of requests are in memory',
  control: 'the control API does not accept it',
  login: 'the login page cannot be shown',
  call: 'a limit was reached',
};

function describeRefusal(entry: JournalEntry, reason: string): string {
  const further = readNumber(entry, 'further');
  const from = describeSender(entry);
  if (further !== undefined) {
    const noun = entry['event'] === 'call' ? 'call' : 'request';
    const verb = further === 1 ? 'was' : 'were';
    return `${formatCount(further)} further ${further === 1 ? noun : `${noun}s`}${from} ${verb} refused: ${reason}`;
  }
  const request = [readText(entry, 'method'), readText(entry, 'path')].filter(Boolean).join(' ');
  const detail = readText(entry, 'detail');
  return `A request${request === '' ? '' : ` ${request}`}${from} was refused: ${reason}${detail === '' ? '' : ` (${detail})`}`;
}

function describeSender(entry: JournalEntry): string {
  const name = readText(entry, 'by') || readText(entry, 'userId');
  return name === '' ? withWord(entry, 'from', 'address') : ` of ${name}`;
}

/** The sentences of lines about refused requests, by their event. */
export const refusalSentences: ReadonlyMap<string, Sentence> = new Map(
  Object.entries(refusalReasons).map(([event, reason]): [string, Sentence] => [
    event,
    (entry) => describeRefusal(entry, reason),
  ]),
);
