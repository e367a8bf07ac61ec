import type { Readable } from 'node:stream';
import { toPlainLine } from '../../../lib/text/escape-controls.ts';
import { hideMailAddresses } from '../../../observability/log/safe-log.ts';
import { createScrubber, listSecretArguments, listSecretValues, shortenIds } from '../../../observability/log/scrub.ts';

const tailBytes = 4096;
const maxLines = 20;
const maxLineLength = 500;
const maxQuoteLength = 200;
const noBytes = Buffer.alloc(0);

/** The last lines that a process wrote to stderr. They often hold the reason why it ended. */
export interface StderrTail {
  /** The lines for the operator, without secrets and control characters. */
  lines(): string[];
  /** The line that says most about a failure, for callers; undefined where there is none. */
  quote(): string | undefined;
}

/** The settings of a process that its stderr may repeat. */
interface ProcessSettings {
  readonly env: Readonly<Record<string, string>>;
  readonly args: readonly string[];
}

/** Creates the function that removes the secrets of a process from a line of its stderr. */
export function createOutputScrubber({ env, args }: ProcessSettings): (text: string) => string {
  return createScrubber([...listSecretValues(env), ...listSecretArguments(args)]);
}

/**
 * Keeps the last bytes, and reads them only when they are asked for: a flood costs little, and the last lines are there
 * even if the journal has dropped them.
 */
export function keepStderrTail(stderr: Readable, settings: ProcessSettings): StderrTail {
  let kept = noBytes;
  let isCut = false;
  stderr.on('data', (chunk: Buffer) => {
    isCut ||= kept.length + chunk.length > tailBytes;
    kept = Buffer.concat([kept, chunk.subarray(-tailBytes)]).subarray(-tailBytes);
  });

  function readLines(scrub: (text: string) => string): string[] {
    // The first line may have lost its start, and half a secret would not be recognised.
    const whole = isCut ? kept.subarray(kept.indexOf('\n') + 1 || kept.length) : kept;
    return hidePersons(scrub(whole.toString('utf8')), settings.env)
      .split(/\r?\n|\r/)
      .filter((line) => line.trim() !== '')
      .slice(-maxLines)
      .map((line) => cutText(toPlainLine(line), maxLineLength));
  }

  return {
    lines: () => readLines(createOutputScrubber(settings)),
    quote() {
      const found = findTellingLine(readLines(createQuoteScrubber(settings)));
      return found === undefined ? undefined : cutText(hidePlaces(shortenIds(found)), maxQuoteLength);
    },
  };
}

/** The context of a call, in a message that a server repeats. */
const repeatedContext = /"ambit\/context"\s{0,4}:\s{0,4}\{[^{}]{0,8192}\}?/g;
/** User names that every installation has; they identify nobody. */
const sharedUsers = new Set(['', 'local', 'anonymous']);

/** Hides the user, and the context of calls: logs show users and permissions to nobody. */
function hidePersons(text: string, { AMBIT_USER_ID: user = '' }: Readonly<Record<string, string>>): string {
  const plain = text.replace(repeatedContext, '"ambit/context":{…}');
  const named = sharedUsers.has(user) ? plain : plain.replaceAll(user, '[user]');
  return hideMailAddresses(named);
}

/** Values that say nothing about anybody: `production`, `8080`. */
const commonValue = /^(?:[a-z]{1,12}|\d{1,10})$/;

/** The length from which a value that its name calls secret is hidden from callers. */
const minQuotedSecret = 4;

/** Hides more from callers than from the operator: short secrets, and all values but paths, which are shortened. */
function createQuoteScrubber({ env, args }: ProcessSettings): (text: string) => string {
  const values = Object.values(env).filter((value) => !commonValue.test(value) && !value.startsWith('/'));
  const hideValues = createScrubber(values);
  const hideSecrets = createScrubber([...listSecretValues(env), ...listSecretArguments(args)], minQuotedSecret);
  return (text) => hideSecrets(hideValues(text));
}

const query = /\b([a-z][a-z0-9+.-]{1,30}:\/\/[^\s?#"'<>]{1,500})[?#][^\s"'<>]{1,500}/gi;
const absolutePath = /(?<![\w:/.…~-])~?(?:\/[^\s/:"'`<>()]{1,255}){1,64}\/(?=[^\s/])/g;

/** Hides the folders of this machine and the queries of addresses. */
function hidePlaces(text: string): string {
  return text
    .replace(/\bfile:\/\/(?=\/)/gi, '')
    .replace(query, '$1')
    .replace(absolutePath, '…/');
}

/** Lines that explain nothing: stack frames, marks below source lines, brackets, versions, notes of package managers. */
const noise = [
  /^(?:at|from|\.{3}|\d+:) /,
  /^File "/,
  /^[\s^~|{}[\](),;*=#_.-]*$/,
  /^Node\.js v\d/,
  /^node:\S+:\d+$/,
  /^(?:npm|pnpm|yarn) (?:notice|warn|info|verb)/i,
  /^npm (?:error|ERR!) (?:code |errno |path |command |A complete log|\d{3}$|$)/,
  /^goroutine \d+ /,
  /^exit status \d+$/,
  /^note: run with/,
  /^\[cause\]/,
];

/** Lines that name an error, by how the common languages and tools write it. */
const telling = [
  /^(?:Uncaught |Unhandled |\S+: )?[\w.$]*(?:Error|Exception|Panic)(?: \[\w+\])?(?::|$)/,
  /^npm (?:error|ERR!) /,
  /^(?:panic|fatal|fatal error|error|critical)\b.{0,40}[:\]]/i,
  /^thread '.*' panicked/,
  /^\W{0,4}(?:invalid|missing|cannot|can't|could not|unable to|failed to|unknown|unsupported)\b/i,
];

/** Finds the line that says most: the last one that names an error, else the last one that is no noise. */
export function findTellingLine(lines: readonly string[]): string | undefined {
  const words = lines.map((line) => line.trim());
  const isNoise = (line: string) => noise.some((pattern) => pattern.test(line));
  const candidates = words.flatMap((line, at) => (isNoise(line) ? [] : [{ line, at }]));
  // npm says first what is wrong, and then what else could be done.
  const ofNpm = candidates.find(({ line }) => /^npm (?:error|ERR!) /.test(line));
  const found =
    candidates.findLast(({ line }) => telling.some((pattern) => pattern.test(line)) && !/^npm /.test(line)) ??
    ofNpm ??
    candidates.at(-1);
  if (found === undefined) return undefined;
  let text = found.line;
  // The reason stands below a line such as "Invalid settings:".
  for (const next of words.slice(found.at + 1)) {
    if (!isUnfinished(text) || text.length > maxQuoteLength) break;
    text = `${text} ${next}`;
  }
  return text;
}

/** True for a title above what it is about, and for an object that goes on in the next line. */
function isUnfinished(text: string): boolean {
  return text.endsWith(':') || (text.match(/[[{]/g)?.length ?? 0) > (text.match(/[\]}]/g)?.length ?? 0);
}

function cutText(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1).replace(/\p{Surrogate}/gu, '')}…`;
}
