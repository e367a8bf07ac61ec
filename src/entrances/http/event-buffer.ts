/** Ends an event. */
export const eventEnd = Buffer.from('\n\n');

/** The last events of a stream, numbered from 0. */
interface EventBuffer {
  readonly events: readonly Buffer[];
  readonly bytes: number;
  /** The number of the newest event, or -1. */
  readonly last: number;
  /** The number of the first event that is kept or will be. */
  first: number;
  /** Adds an event and returns its bytes. */
  add(text: Buffer, lead: string): Buffer;
  dropOldest(): boolean;
  clear(): void;
}

export function createEventBuffer(id: string, onChange: (bytes: number) => void): EventBuffer {
  const events: Buffer[] = [];
  function count(change: number): void {
    buffer.bytes += change;
    onChange(change);
  }
  const buffer = {
    events,
    bytes: 0,
    last: -1,
    first: 0,
    add(text: Buffer, lead: string) {
      const name = text.length === 0 ? '' : 'event: message\n';
      const head = Buffer.from(`${lead}id: ${id}.${++buffer.last}\n${name}data: `);
      // Memory of its own: a small buffer from Node's pool would keep the whole pool, which nothing counts.
      const event = Buffer.allocUnsafeSlow(head.length + text.length + eventEnd.length);
      event.set(head);
      event.set(text, head.length);
      event.set(eventEnd, head.length + text.length);
      events.push(event);
      count(event.length);
      return event;
    },
    dropOldest() {
      const oldest = events.shift();
      if (oldest === undefined) return false;
      buffer.first++;
      count(-oldest.length);
      return true;
    },
    clear() {
      count(-buffer.bytes);
      events.length = 0;
      buffer.first = buffer.last + 1;
    },
  };
  return buffer;
}
