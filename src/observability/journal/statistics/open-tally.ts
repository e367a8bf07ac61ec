import { canWiden, widenSlots } from './condense-tally.ts';
import { addToHistogram, findBucket } from './latency-histogram.ts';
import {
  createTally,
  type DetailTally,
  type MinuteTally,
  maxServers,
  minuteMs,
  openSlot,
  type Tally,
  type ToolName,
} from './tally.ts';

/** A tally to which entries are added. Its memory is limited: callers can invent any number of tools. */
export interface OpenTally {
  readonly tally: Tally;
  add(entry: Readonly<Record<string, unknown>>, time: number): void;
}

/** The number of counts by tool and rule while a file is read. */
const maxOpenEntries = 100_000;
/** Tools that had a successful call, and others: invented names must not crowd out the tools that exist. */
const [maxProvenTools, maxOtherTools] = [1000, 300];
const maxRules = 500;
const maxKeyLength = 512;
const errorCode = /^[A-Z][A-Z_]*$/;

/** Opens an empty tally for the entries of a file. */
export function openTally(): OpenTally {
  const tally = createTally();
  const findTool = createToolFinder(tally);
  const ruleNumbers = new Map<string, number>();
  let entries = 0;

  function findRule(rule: string | null, code: string): number {
    const key = composeKey(rule, code);
    const known = ruleNumbers.get(key);
    if (known !== undefined) return known;
    if (tally.rules.length > maxRules || key.length > maxKeyLength) return 0;
    ruleNumbers.set(key, tally.rules.length);
    return tally.rules.push({ rule, code }) - 1;
  }

  function findDetail(minute: number): DetailTally {
    if (entries > maxOpenEntries && canWiden(tally)) entries = widenSlots(tally);
    return openSlot(tally.details, minute - (minute % tally.detailMinutes));
  }

  function addRefusals(minute: number, rule: unknown, code: string, count: number): void {
    openMinute(tally, minute).refusals += count;
    const { rules } = findDetail(minute);
    const number = findRule(typeof rule === 'string' ? rule : null, code);
    if (!rules.has(number)) entries++;
    rules.set(number, (rules.get(number) ?? 0) + count);
  }

  function addCall(entry: Readonly<Record<string, unknown>>, minute: number): void {
    const { method, outcome, rule, server, name, ms } = entry;
    if (typeof outcome !== 'string') return;
    const isRefused = errorCode.test(outcome);
    if (isRefused) addRefusals(minute, rule, outcome, 1);
    if (method !== 'tools/call') return;
    const isError = outcome !== 'ok';
    const numbers = openMinute(tally, minute);
    const { tools } = findDetail(minute);
    const number = findTool(asText(server), asText(name), !isError);
    let ofTool = tools.get(number);
    if (ofTool === undefined) {
      ofTool = { calls: 0, errors: 0, latencies: [] };
      tools.set(number, ofTool);
      entries++;
    }
    const bucket = isRefused || typeof ms !== 'number' ? undefined : findBucket(ms);
    for (const each of [numbers, ofTool]) {
      each.calls++;
      if (isError) each.errors++;
      if (bucket !== undefined) addToHistogram(each.latencies, bucket);
    }
  }

  return {
    tally,
    add(entry, time) {
      const minute = Math.floor(time / minuteMs);
      const { kind, event } = entry;
      if (kind === 'call') addCall(entry, minute);
      else if (kind === 'refusal') {
        const code = asText(entry['code']) || asText(event);
        addRefusals(minute, undefined, code, readCount(entry['further']));
      } else if (kind === 'session' && event === 'created') openMinute(tally, minute).sessionsOpened++;
      else if (kind === 'process' && event === 'started') openMinute(tally, minute).started++;
      else if (kind === 'process' && event === 'start-failed') openMinute(tally, minute).failed++;
    },
  };
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Reads how many refusals a line stands for. */
function readCount(further: unknown): number {
  return Number.isSafeInteger(further) && (further as number) > 0 ? (further as number) : 1;
}

function composeKey(first: string | null, second: string | null): string {
  return `${first?.length ?? 'none'} ${first} ${second}`;
}

/** Creates the function that finds the position of a tool. */
function createToolFinder({ tools }: Tally): (server: string, name: string, isOk: boolean) => number {
  const numbers = new Map<string, number>();
  const unproven = new Set<number>();
  let proven = 0;
  let servers = 0;

  function addName(key: string, name: ToolName): number {
    numbers.set(key, tools.length);
    return tools.push(name) - 1;
  }

  /** Finds the position of all further tools of a server. */
  function findRest(server: string): number {
    const key = composeKey(server, null);
    const known = numbers.get(key);
    if (known !== undefined) return known;
    if (servers >= maxServers || key.length > maxKeyLength) return 0;
    servers++;
    return addName(key, { server, tool: null });
  }

  return (server, name, isOk) => {
    // At the address of all servers, a tool is recorded with the name of its server.
    const start = `${server}__`;
    const tool = name.startsWith(start) ? name.slice(start.length) : name;
    const key = composeKey(server, tool);
    const known = numbers.get(key);
    if (known !== undefined) {
      if (isOk && proven < maxProvenTools && unproven.delete(known)) proven++;
      return known;
    }
    const hasRoom = isOk ? proven < maxProvenTools : unproven.size < maxOtherTools;
    if (!hasRoom || key.length > maxKeyLength) return findRest(server);
    const number = addName(key, { server, tool });
    if (isOk) proven++;
    else unproven.add(number);
    return number;
  };
}

function openMinute({ minutes }: Tally, minute: number): MinuteTally {
  const known = minutes.get(minute);
  if (known !== undefined) return known;
  const fresh = { calls: 0, errors: 0, refusals: 0, sessionsOpened: 0, started: 0, failed: 0, latencies: [] };
  minutes.set(minute, fresh);
  return fresh;
}
