import { effect, signal, untracked } from '@preact/signals';
import { signedIn } from '../sign-in/signed-in.ts';
import { RequestError, send } from './request.ts';

/** The state of the one event stream that all views share. */
export const streamState = signal<'off' | 'connecting' | 'live' | 'lost'>('off');
/** While true, views keep what they show. Events are collected and applied afterwards. */
export const isPaused = signal(false);

type Listener = (type: string, data: unknown) => void;
const listeners = new Set<Listener>();
const retryMs = 2000;
/** The gateway says something at least every 15 seconds. A stream that is silent for longer has been cut unnoticed. */
const silentMs = 40_000;
const maxHeld = 5000;
let held: { readonly type: string; readonly data: unknown }[] = [];
let lastId = '';

/** Calls the listener for each event. Type `resync` means that events may have been missed: read everything again. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function deliver(type: string, data: unknown): void {
  if (isPaused.peek()) {
    // Once everything is to be read again, the events before say nothing more.
    if (type === 'resync' || held.length >= maxHeld) held = [{ type: 'resync', data: undefined }];
    else held.push({ type, data });
    return;
  }
  for (const listener of listeners) listener(type, data);
}

effect(() => {
  if (isPaused.value) return;
  const waiting = held;
  held = [];
  untracked(() => {
    for (const { type, data } of waiting) for (const listener of listeners) listener(type, data);
  });
});

/** Nothing of one sign-in is kept for the next. */
effect(() => {
  if (signedIn.value !== undefined) return;
  held = [];
  isPaused.value = false;
});

/** Reads the event stream while somebody is signed in, and connects again when it breaks. */
effect(() => {
  const token = signedIn.value?.token;
  lastId = '';
  if (token === undefined) {
    streamState.value = 'off';
    return undefined;
  }
  const controller = new AbortController();
  void keepReading(controller.signal);
  return () => controller.abort();
});

async function keepReading(signal: AbortSignal): Promise<void> {
  let isFirst = true;
  while (!signal.aborted) {
    streamState.value = isFirst ? 'connecting' : 'lost';
    try {
      const headers: Record<string, string> = lastId === '' ? {} : { 'last-event-id': lastId };
      const response = await send('/api/v1/events?activity=true', { signal, headers });
      streamState.value = 'live';
      // A view may have read its data before the stream began: what happened in between is in neither.
      deliver('resync', undefined);
      isFirst = false;
      await readStream(response);
      // The gateway ends the stream of a console that is signed out. The answer to any request tells.
      await send('/api/v1/whoami', { signal });
    } catch (error) {
      if (signal.aborted || (error instanceof RequestError && error.status === 401)) return;
    }
    if (!signal.aborted) streamState.value = 'lost';
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}

async function readStream(response: Response): Promise<void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) return;
  let rest = '';
  for (;;) {
    const timer = setTimeout(() => void reader.cancel(), silentMs);
    const { value, done } = await reader.read();
    clearTimeout(timer);
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) readBlock(block);
  }
}

function readBlock(block: string): void {
  let [type, data] = ['message', ''];
  for (const line of block.split('\n')) {
    if (line.startsWith('event: ')) type = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
    else if (line.startsWith('id: ')) lastId = line.slice(4);
  }
  if (type === 'lost') deliver('resync', undefined);
  else if (data !== '') deliver(type, JSON.parse(data) as unknown);
}
