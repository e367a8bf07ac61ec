import type { Readable, Writable } from 'node:stream';
import { AmbitError } from '../../../errors.ts';
import { createFrameReader, frameOf, type Head } from './frames.ts';
import { changing, type FilesRequest } from './requests.ts';
import { refusalOf } from './response-schemas.ts';

/** Lets so many in at a time, and so much of them; in the order in which they came. */
interface Gate {
  /** Resolves to what is called on the way out. */
  enter(weight: number): Promise<() => void>;
}

export interface Question<T> {
  readonly request: FilesRequest;
  readonly body?: Uint8Array;
  /** The most that the answer may have beside its head; none unless given. */
  readonly answerBytes?: number;
  /** Throws for what is no answer. */
  read(ok: unknown, body: Buffer): T;
}

export interface Connection {
  ask<T>(question: Question<T>): Promise<T>;
  /** Whoever waits is told, and whoever comes: nobody answers any more. */
  fail(): void;
}

export interface ConnectionOptions {
  /** The most content that is on its way in at a time, unless a single one has more. */
  readonly contentBytes: number;
  /** Nobody answers any more. Called once, before those who wait are told. */
  onFailed?(): void;
  /** It said what it cannot have to say, or nothing for too long. Called once. */
  onBroken(why: Error): void;
  readonly answerMs?: number;
}

interface Waiting {
  readonly question: Question<unknown>;
  readonly late: NodeJS.Timeout;
  accept(value: unknown): void;
  reject(error: unknown): void;
}

const mostUnderWay = 64;

/** Asks the program at the other end of two streams, many questions at a time. */
export function connect(stdin: Writable, stdout: Readable, options: ConnectionOptions): Connection {
  const { contentBytes, onBroken, answerMs = 120_000 } = options;
  const waiting = new Map<number, Waiting>();
  const gate = createGate({ most: mostUnderWay, mostWeight: contentBytes });
  let lastId = 0;
  let failed = false;

  const reader = createFrameReader({ bodyBytes: (head) => waited(head).question.answerBytes ?? 0, onFrame });
  stdout.on('data', (chunk: Buffer) => {
    if (failed) return;
    try {
      reader.push(chunk);
    } catch (error) {
      breakOff(error as Error);
    }
  });

  function waited({ id }: Head): Waiting {
    const found = waiting.get(id as number);
    if (found === undefined) throw new Error('An answer to nothing that was asked.');
    return found;
  }

  function onFrame(head: Head, body: Buffer): void {
    const { question, late, accept, reject } = waited(head);
    const refusal = head['error'] === undefined ? undefined : refusalOf(head['error']);
    const value = refusal === undefined ? question.read(head['ok'], body) : undefined;
    waiting.delete(head['id'] as number);
    clearTimeout(late);
    if (refusal === undefined) accept(value);
    else reject(refusal);
  }

  function breakOff(why: Error): void {
    if (failed) return;
    fail();
    onBroken(why);
  }

  function fail(): void {
    if (failed) return;
    failed = true;
    options.onFailed?.();
    for (const { question, late, reject } of waiting.values()) {
      clearTimeout(late);
      reject(unanswered(question.request));
    }
    waiting.clear();
  }

  function send<T>(question: Question<T>): Promise<T> {
    return new Promise<T>((accept, reject) => {
      if (failed) {
        reject(new AmbitError('WORKSPACE_UNAVAILABLE'));
        return;
      }
      const id = ++lastId;
      const late = setTimeout(() => breakOff(new Error('It did not answer in time.')), answerMs);
      waiting.set(id, { question, late, accept: accept as (value: unknown) => void, reject });
      for (const part of frameOf({ id, ...question.request }, question.body)) stdin.write(part);
    });
  }

  return {
    async ask(question) {
      const leave = await gate.enter(question.body?.length ?? 0);
      try {
        return await send(question);
      } finally {
        leave();
      }
    },
    fail,
  };
}

function unanswered(request: FilesRequest): AmbitError {
  if (!changing.has(request.do)) {
    return new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: 'The container that keeps the files ended before it answered.',
      hint: 'Try again; it is started anew.',
    });
  }
  return new AmbitError('FILE_FAILED', {
    what: 'The container that keeps the files ended before it answered: what was asked for may have been done or not.',
    hint: 'Look with session_file_info or session_read_file what is there now, then decide.',
  });
}

function createGate({ most, mostWeight }: { readonly most: number; readonly mostWeight: number }): Gate {
  const queue: { readonly weight: number; readonly go: () => void }[] = [];
  let inside = 0;
  let weightInside = 0;

  /** What is too heavy by itself goes alone. */
  const fits = (weight: number) => inside === 0 || (inside < most && weightInside + weight <= mostWeight);

  function admit(): void {
    for (let [next] = queue; next !== undefined && fits(next.weight); [next] = queue) {
      queue.shift();
      inside++;
      weightInside += next.weight;
      next.go();
    }
  }

  return {
    async enter(weight) {
      await new Promise<void>((go) => {
        queue.push({ weight, go });
        admit();
      });
      return () => {
        inside--;
        weightInside -= weight;
        admit();
      };
    },
  };
}
