import { formatMs, plural } from '../parts/format.ts';
import {
  capitalize,
  describePlace,
  type JournalEntry,
  readNumber,
  readText,
  readToolName,
  type Sentence,
  withWord,
} from './entry-fields.ts';
import { gatewaySentences, refusalSentences } from './gateway-sentences.ts';
import { egressSentences, processSentences, sessionSentences } from './session-sentences.ts';

export type { JournalEntry } from './entry-fields.ts';

/**
 * Describes a line of the journal as a plain sentence without a full stop. The sentence contains text from outside:
 * show it only with a part that makes such text visible.
 */
export function describeEntry(entry: JournalEntry): string {
  const { kind } = entry;
  const event = readText(entry, 'event');
  const sentence = entrySentences.get(kind) ?? eventSentences.get(kind)?.get(event);
  if (sentence !== undefined) return sentence(entry);
  const rest = Object.entries(entry).filter(([name]) => !['time', 'kind', 'event'].includes(name));
  const facts = rest.slice(0, 6).map(([name]) => `${name} ${readText(entry, name)}`);
  return [`${event || kind}`, ...facts].join(', ');
}

const methodSentences: ReadonlyMap<string, Sentence> = new Map<string, Sentence>([
  ['tools/call', (entry) => `Tool ${readToolName(entry) || 'without a name'} of ${describePlace(entry)} was called`],
  ['tools/list', (entry) => `The tools of ${describePlace(entry)} were listed`],
  ['resources/list', (entry) => `The resources of ${describePlace(entry)} were listed`],
  ['resources/read', (entry) => `Resource ${readText(entry, 'name')} of ${describePlace(entry)} was read`],
  ['prompts/list', (entry) => `The prompts of ${describePlace(entry)} were listed`],
  ['prompts/get', (entry) => `Prompt ${readToolName(entry)} of ${describePlace(entry)} was read`],
  ['initialize', (entry) => `A client connected to ${describePlace(entry)}`],
  ['server/discover', (entry) => `A client asked what ${describePlace(entry)} can do`],
  ['ping', (entry) => `A client checked that ${describePlace(entry)} answers`],
  ['notifications/initialized', (entry) => `A client finished connecting to ${describePlace(entry)}`],
  ['notifications/cancelled', (entry) => `A client cancelled a request to ${describePlace(entry)}`],
  ['subscriptions/listen', (entry) => `A client waits for changes of ${describePlace(entry)}`],
  ['completion/complete', (entry) => `A client asked ${describePlace(entry)} to complete a value`],
  ['(response)', (entry) => `The client answered a request of ${describePlace(entry)}`],
  ['(stream)', (entry) => `A client opened a stream for messages of ${describePlace(entry)}`],
  ['(goodbye)', (entry) => `A client ended its connection to ${describePlace(entry)}`],
  ['(batch)', (entry) => `A client sent several messages at once to ${describePlace(entry)}`],
]);

function describeCall(entry: JournalEntry): string {
  const method = readText(entry, 'method');
  const what = methodSentences.get(method);
  const start = what?.(entry) ?? `Method ${method} of ${describePlace(entry)} was called`;
  const ms = readNumber(entry, 'ms');
  const time = ms === undefined ? '' : ` (${formatMs(ms)})`;
  const ignored = withWord(entry, 'and the announced workspace was ignored:', 'ignoredWorkspace');
  return `${start}${describeOutcome(entry)}${ignored}${time}`;
}

function describeOutcome(entry: JournalEntry): string {
  const outcome = readText(entry, 'outcome');
  const rule = readText(entry, 'rule');
  if (outcome === 'ok') return entry['cached'] === undefined ? '' : ' and answered from the cache';
  if (outcome === 'tool-error') return ', and the tool reported an error';
  if (outcome === 'server-error') return ', and the server answered with an error';
  if (rule !== '' && outcome === 'PERMISSION_DENIED') return `, but rule ${rule} refused it: ${outcome}`;
  return ` without success: ${outcome}`;
}

function describePush(entry: JournalEntry): string {
  const outcome = readText(entry, 'outcome');
  const end =
    outcome === 'ok' ? 'to the client' : outcome === 'undelivered' ? 'but no client was connected' : `but: ${outcome}`;
  return `${capitalize(describePlace(entry))} sent ${readText(entry, 'method')} ${end}`;
}

const fileSentences: ReadonlyMap<string, readonly [done: string, infinitive: string]> = new Map([
  ['stat', ['looked at', 'look at']],
  ['open', ['read', 'read']],
  ['list', ['listed', 'list']],
  ['write', ['wrote', 'write']],
  ['may-write', ['asked to write', 'write']],
  ['make-folder', ['made folder', 'make folder']],
  ['remove', ['removed', 'remove']],
  ['move', ['moved away', 'move away']],
  ['move-to', ['moved something to', 'move something to']],
]);

function describeFile(entry: JournalEntry): string {
  const operation = readText(entry, 'operation');
  const [done, infinitive] = fileSentences.get(operation) ?? [`did ${operation} on`, `do ${operation} on`];
  const tool = readText(entry, 'tool') || 'A file tool';
  const [asked, resolved] = [readText(entry, 'asked'), readText(entry, 'resolved')];
  const path = asked === resolved || resolved === '' ? asked : `${asked} (${resolved})`;
  const further = readNumber(entry, 'further');
  const more = further === undefined ? '' : ` and ${plural(further, 'further path')}`;
  const code = readText(entry, 'code');
  const why = code === '' ? '' : `: ${code}`;
  const target = further === undefined ? path : `${path}${more}`.trim().replace(/^and /, '');
  if (entry['decision'] === 'refused') return `${tool} was not allowed to ${infinitive} ${target}${why}`;
  if (entry['decision'] === 'failed') return `${tool} failed to ${infinitive} ${target}${why}`;
  return `${tool} ${done} ${target}`;
}

const entrySentences: ReadonlyMap<string, Sentence> = new Map<string, Sentence>([
  ['call', describeCall],
  ['push', describePush],
  ['file', describeFile],
]);

const eventSentences: ReadonlyMap<string, ReadonlyMap<string, Sentence>> = new Map([
  ['session', sessionSentences],
  ['process', processSentences],
  ['egress', egressSentences],
  ['gateway', gatewaySentences],
  ['refusal', refusalSentences],
]);
