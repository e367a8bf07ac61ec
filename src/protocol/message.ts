import type { AnsweredFailure } from './channel.ts';
import { applyEdits, type Edit } from './json/edit.ts';
import { findReading } from './json/fold-key.ts';
import {
  DensityError,
  findMember,
  type JsonMember,
  type ObjectShape,
  readRawValue,
  readStringValue,
  ScanError,
  type ScanLimits,
  type ScanPlan,
  scanObject,
} from './json/scan.ts';
import { StacklessError } from './protocol-error.ts';

/** One JSON-RPC message: its bytes as received, and the positions of its parts. */
export interface Message {
  readonly bytes: Buffer;
  readonly kind: 'request' | 'notification' | 'response';
  /** The raw text of the id (`7`, `"a"`); undefined on notifications, `null` on a response to an unknown request. */
  readonly id: string | undefined;
  /** Empty on responses. */
  readonly method: string;
  readonly shape: ObjectShape;
  readonly params: JsonMember | undefined;
  readonly result: JsonMember | undefined;
  readonly error: JsonMember | undefined;
  /** `_meta` of params or result. */
  readonly meta: ObjectShape | undefined;
}

/** The error of a message, in words for its sender. */
export class MessageError extends StacklessError {
  /** True if the bytes are no JSON (−32700), false if they are no JSON-RPC message (−32600). */
  readonly isNotJson: boolean;
  /** True if it may be valid, but holds more than one message may. */
  readonly isTooDense: boolean;
  /** The id of the failed request, if known. On stdio only the id tells the sender which request failed. */
  readonly id: string;

  constructor(what: string, notJson: boolean, id = 'null', tooDense = false) {
    super(what);
    this.name = 'MessageError';
    this.isNotJson = notJson;
    this.isTooDense = tooDense;
    this.id = id;
  }
}

export const relatedTaskKey = 'io.modelcontextprotocol/related-task';
const plan: ScanPlan = {
  params: { _meta: { [relatedTaskKey]: {} } },
  result: { _meta: { [relatedTaskKey]: {} }, task: {} },
  error: {},
};

/**
 * Limits of client messages. Sorting and comparing the keys of one object takes more than linear time and blocks
 * everybody else. No protocol object and no sensible argument has so many. The same holds for all values of a message:
 * they are read, judged, hashed and signed.
 */
const clientLimits = { maxKeys: 10_000, maxValues: 100_000 } as const satisfies ScanLimits;
/** Limit of values in one client message, or in one batch. */
export const maxClientValues = clientLimits.maxValues;
/** Size from which a message is cached, so that reading it again needs no second scan. Its bytes never change. */
const largeBytes = 256 * 1024;
const largeMessages = new WeakMap<Buffer, Message>();

/** Reads one JSON-RPC message of a client. Throws MessageError if it is none, or has too many keys or values. */
export function readClientMessage(text: Buffer): Message {
  return readCached(text, clientLimits);
}

/** Reads one JSON-RPC message. Throws MessageError if it is none. */
export function readMessage(text: Buffer): Message {
  return readCached(text, undefined);
}

function readCached(text: Buffer, limits: ScanLimits | undefined): Message {
  if (text.length < largeBytes) return parseMessage(text, limits);
  const known = largeMessages.get(text);
  if (known !== undefined) return known;
  const message = parseMessage(text, limits);
  largeMessages.set(text, message);
  largeMessages.set(message.bytes, message);
  return message;
}

function parseMessage(text: Buffer, limits: ScanLimits | undefined): Message {
  const shape = scanMessage(text, limits);
  const bytes = shape.end === text.length ? text : text.subarray(0, shape.end);
  try {
    return readEnvelope(bytes, shape);
  } catch (fault) {
    if (!(fault instanceof MessageError)) throw fault;
    throw new MessageError(fault.message, false, findRequestId(bytes, shape));
  }
}

// The id of an invalid answer is not returned: it counts the other side's requests, not the sender's.
function findRequestId(bytes: Buffer, shape: ObjectShape): string {
  const ids = shape.members.filter((member) => member.key === 'id');
  const isRequest = findMember(shape, 'method') && !findMember(shape, 'result') && !findMember(shape, 'error');
  if (!isRequest || ids.length !== 1) return 'null';
  try {
    return readId(bytes, ids[0] as JsonMember);
  } catch {
    return 'null';
  }
}

function readEnvelope(bytes: Buffer, shape: ObjectShape): Message {
  let version: JsonMember | undefined;
  let idMember: JsonMember | undefined;
  let methodMember: JsonMember | undefined;
  let params: JsonMember | undefined;
  let result: JsonMember | undefined;
  let error: JsonMember | undefined;
  for (const member of shape.members) {
    // A known name that occurs twice, or in another spelling, means different things to different readers.
    switch (member.key) {
      case 'jsonrpc':
        version = assertOnce(version, member);
        break;
      case 'id':
        idMember = assertOnce(idMember, member);
        break;
      case 'method':
        methodMember = assertOnce(methodMember, member);
        break;
      case 'params':
        params = assertOnce(params, member);
        break;
      case 'result':
        result = assertOnce(result, member);
        break;
      case 'error':
        error = assertOnce(error, member);
        break;
      default:
        refuseVariant(member.key);
    }
  }
  if (readStringValue(bytes, version) !== '2.0') throw new MessageError('"jsonrpc" must be "2.0"', false);
  if (methodMember !== undefined) {
    const method = readStringValue(bytes, methodMember);
    if (method === undefined || method === '') throw new MessageError('"method" must be a non-empty string', false);
    if (result !== undefined || error !== undefined) {
      throw new MessageError('a message is either a request or a response', false);
    }
    if (params !== undefined && params.shape === undefined) throw new MessageError('"params" must be an object', false);
    const id = idMember === undefined ? undefined : readId(bytes, idMember);
    const kind = id === undefined ? 'notification' : 'request';
    return { bytes, kind, id, method, shape, params, result, error, meta: findMember(params?.shape, '_meta')?.shape };
  }
  if ((result === undefined) === (error === undefined)) {
    throw new MessageError('a message needs a "method", or exactly one of "result" and "error"', false);
  }
  if (error !== undefined && error.shape === undefined) throw new MessageError('"error" must be an object', false);
  if (idMember === undefined) {
    if (error === undefined) throw new MessageError('a response needs an "id"', false);
    return { bytes, kind: 'response', id: 'null', method: '', shape, params, result, error, meta: undefined };
  }
  const id = error !== undefined && readRawValue(bytes, idMember) === 'null' ? 'null' : readId(bytes, idMember);
  const meta = findMember(result?.shape, '_meta')?.shape;
  return { bytes, kind: 'response', id, method: '', shape, params, result, error, meta };
}

/** Applies edits to a message and reads the result again. */
export function applyMessageEdits(message: Message, edits: readonly Edit[]): Message {
  return edits.length === 0 ? message : readMessage(applyEdits(message.bytes, edits));
}

export function findIdMember(message: Message): JsonMember {
  const member = findMember(message.shape, 'id');
  if (member === undefined) throw new TypeError('the message has no id');
  return member;
}

/** Reads the text of an error's code; undefined where there is none. */
export function readErrorCode({ bytes, error }: Message): string | undefined {
  const code = findMember(error?.shape, 'code');
  return code === undefined ? undefined : readRawValue(bytes, code);
}

/** Finds the failure that an answer reports. It takes no time: the parts of the answer are known. */
export function findFailure({ bytes, result, error }: Message): AnsweredFailure | undefined {
  if (error !== undefined) return 'server-error';
  const isError = findMember(result?.shape, 'isError');
  return isError !== undefined && readRawValue(bytes, isError) === 'true' ? 'tool-error' : undefined;
}

function scanMessage(bytes: Buffer, limits: ScanLimits | undefined): ObjectShape {
  try {
    return scanObject(bytes, plan, limits);
  } catch (fault) {
    if (fault instanceof DensityError) throw new MessageError(fault.message, false, 'null', true);
    if (fault instanceof ScanError) throw new MessageError(`not a JSON object: ${fault.message}`, true);
    throw fault;
  }
}

function assertOnce(seen: JsonMember | undefined, member: JsonMember): JsonMember {
  if (seen !== undefined) throw new MessageError(`"${member.key}" occurs twice`, false);
  return member;
}

const envelopeKeys = new Set(['jsonrpc', 'id', 'method', 'params', 'result', 'error']);

function refuseVariant(key: string): void {
  const name = findReading(key, envelopeKeys);
  if (name !== undefined) {
    throw new MessageError(`${JSON.stringify(key)} is not a name of the protocol; write "${name}"`, false);
  }
}

/** Reads an id: a string, or an integer that every JSON reader holds exactly. */
function readId(bytes: Buffer, member: JsonMember): string {
  const small = readSmallNumber(bytes, member.start, member.end);
  if (small !== undefined) return small;
  const raw = readRawValue(bytes, member);
  if (raw.charCodeAt(0) === 0x22) return raw;
  if (/^(?:0|-?[1-9][0-9]{0,15})$/.test(raw) && Number.isSafeInteger(Number(raw))) return raw;
  throw new MessageError('"id" must be a string or an integer within ±(2^53−1)', false);
}

/** Reads the usual id, a short number, without a decoder. */
function readSmallNumber(bytes: Buffer, start: number, end: number): string | undefined {
  if (end - start > 9 || (bytes[start] === 0x30 && end - start > 1)) return undefined;
  let value = 0;
  for (let i = start; i < end; i++) {
    const digit = (bytes[i] as number) - 0x30;
    if (digit < 0 || digit > 9) return undefined;
    value = value * 10 + digit;
  }
  return String(value);
}
