import { signal } from '@preact/signals';
import { isPaused } from '../api/events.ts';

/** The current time, renewed once a second while the page is visible and not paused. */
export const now = signal(Date.now());
setInterval(() => {
  if (document.visibilityState === 'visible' && !isPaused.peek()) now.value = Date.now();
}, 1000);

const units: readonly (readonly [name: string, seconds: number])[] = [
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
];

/** Formats a duration in its two largest units, such as `2 h 5 min`. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (ms < 1000 && ms > 0) return `${formatMs(ms)}`;
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first === -1) return '0 s';
  const [name, size] = units[first] as readonly [string, number];
  const [nextName = '', nextSize = 0] = units[first + 1] ?? [];
  const rest = nextSize === 0 ? 0 : Math.floor((seconds % size) / nextSize);
  const start = `${Math.floor(seconds / size)} ${name}`;
  return rest === 0 ? start : `${start} ${rest} ${nextName}`;
}

/** Formats the time since something happened in its largest unit, such as `2 h`. */
export function formatAge(since: number | string): string {
  const ms = now.value - new Date(since).getTime();
  return formatDuration(Math.max(1000, ms)).split(' ').slice(0, 2).join(' ');
}

/** Formats the time since something began in its two largest units, in whole seconds. */
export function formatSince(since: number | string): string {
  return formatDuration(Math.floor((now.value - new Date(since).getTime()) / 1000) * 1000);
}

export function formatMs(ms: number): string {
  if (ms >= 1000) return `${(ms / 1000).toFixed(ms >= 10_000 ? 1 : 2)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${Number(ms.toPrecision(2))} ms`;
}

/** Formats a size in units of 1024, as limits are configured: `memoryMb: 512` is 512 MiB. */
export function formatBytes(bytes: number): string {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, at] = [bytes, 0];
  while (value >= 1000 && at < names.length - 1) {
    value /= 1024;
    at++;
  }
  return `${value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${names[at]}`;
}

const wholeNumber = new Intl.NumberFormat('en');

export function formatCount(count: number): string {
  return wholeNumber.format(count);
}

export function formatTime(at: number | string): string {
  const time = new Date(at);
  const isToday = time.toDateString() === new Date(now.peek()).toDateString();
  const clock = time.toLocaleTimeString('en-GB');
  return isToday ? clock : `${formatDay(time)} ${clock}`;
}

/** Formats a time in full, for titles. */
export function formatInstant(at: number | string): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? String(at) : time.toISOString();
}

/** Formats a time of an axis: the hour, and over several days the day. */
export function formatAxisTime(at: number, rangeMs: number): string {
  const time = new Date(at);
  const clock = time.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
  if (rangeMs <= 86_400_000) return clock;
  return rangeMs <= 2 * 86_400_000 ? `${formatDay(time)} ${clock}` : formatDay(time);
}

/** Formats the time that the pointer of a chart is at: the hour and the minute, and over several days the day. */
export function formatPointedTime(at: number, rangeMs: number): string {
  const clock = formatAxisTime(at, 0);
  return rangeMs <= 86_400_000 ? clock : `${formatDay(new Date(at))} ${clock}`;
}

function formatDay(time: Date): string {
  return time.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
}

export function plural(count: number, noun: string, many = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : many}`;
}

const hues = 24;
/** Hues nearer than this to red are those of errors. */
const reservedHue = 25;

/** Picks one of 24 hues for a name or id, always the same one. None is near the colour of errors. */
export function hueOf(text: string): number {
  // FNV-1a, with the last step of MurmurHash: ids that differ in few letters get different hues.
  let hash = 0x811c9dc5;
  for (const char of text) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  const at = ((hash ^ (hash >>> 16)) >>> 0) % hues;
  return Math.round(reservedHue + (at * (360 - 2 * reservedHue)) / (hues - 1));
}
