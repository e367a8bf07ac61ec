import { scrub } from '../log/scrub.ts';

/** What the journal says of one exchange. */
export interface CallEntry {
  readonly id: string;
  readonly sessionId: string | undefined;
  readonly userId: string | undefined;
  /** The API key it came with; keys of one user may share a session. */
  readonly keyId?: string | undefined;
  readonly entrance: string;
  readonly era: string;
  readonly server: string;
  readonly method: string;
  readonly name: string | undefined;
  readonly outcome: string;
  readonly rule: string | undefined;
  /** Where it stood, when its client chose. */
  readonly workspaceId?: string | undefined;
  /** What its client announced in vain. */
  readonly ignoredWorkspace?: string | undefined;
  /** The trace that its client is part of, and our span in it. */
  readonly traceId?: string | undefined;
  readonly spanId?: string | undefined;
  /** The process that served it. */
  readonly pid?: number | undefined;
  /** The exchange whose result was given again. */
  readonly cached?: string | undefined;
  readonly ms: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

/** There is one for every exchange: printed piece by piece it takes half the time that JSON.stringify does. */
export function callLine(call: CallEntry): string {
  return (
    `"kind":"call","id":"${call.id}"${member('sessionId', call.sessionId)}${member('userId', call.userId)}` +
    `${member('keyId', call.keyId)},"entrance":"${call.entrance}","era":"${call.era}","server":${quoted(call.server)},"method":${said(call.method)}` +
    `${call.name === undefined ? '' : `,"name":${said(call.name)}`},"outcome":${quoted(call.outcome)}${member('rule', call.rule)}` +
    `${member('workspaceId', call.workspaceId)}${call.ignoredWorkspace === undefined ? '' : `,"ignoredWorkspace":${said(call.ignoredWorkspace)}`}` +
    `${member('cached', call.cached)}${member('traceId', call.traceId)}${member('spanId', call.spanId)}${call.pid === undefined ? '' : `,"pid":${call.pid}`}` +
    `,"ms":${call.ms},"bytesIn":${call.bytesIn},"bytesOut":${call.bytesOut}}`
  );
}

function member(name: string, value: string | undefined): string {
  return value === undefined ? '' : `,"${name}":${quoted(value)}`;
}

const mostKnown = 1000;
const longKnown = 128;
/** Longer than any name in use; what comes from outside shall not fill the disk. */
const longText = 2048;
const ids = new Map<string, string>();
const words = new Map<string, string>();

/** Ids and what is configured: as they are. */
function quoted(text: string): string {
  return remembered(ids, text, quote);
}

/** Names and addresses come from agents, who may put anything into them. */
function said(text: string): string {
  return remembered(words, text, (each) => quote(scrub(each)));
}

/** The same few words are quoted over and over. */
function remembered(known: Map<string, string>, text: string, make: (text: string) => string): string {
  const before = known.get(text);
  if (before !== undefined) return before;
  const fresh = make(text);
  if (text.length <= longKnown) {
    if (known.size >= mostKnown) known.clear();
    known.set(text, fresh);
  }
  return fresh;
}

function quote(text: string): string {
  return JSON.stringify(text.length > longText ? `${text.slice(0, longText)}…` : text);
}
