import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { PostAnswer } from '../json-mcp-client.ts';
import { type Cell, type CellSession, callCell, cells, openCell, pinTools, writeTitle } from './refusal-cells.ts';
import { type Kind, kinds } from './refusal-kinds.ts';
import { type RefusingGateway, startRefusingGateway } from './start-refusing-gateway.ts';

interface Refused {
  readonly session: CellSession;
  readonly said: PostAnswer;
}

type Line = Readonly<Record<string, unknown>>;

let on: RefusingGateway | undefined;
const refused = new Map<Cell, Refused>();
/** A cell that cannot be made fails its own test, not all of them. */
const failures = new Map<Cell, unknown>();
let journal: readonly Line[] = [];

/** Works on several items at a time, so that a process that starts holds up nobody else. */
async function forEach<T>(items: T[], work: (item: T) => Promise<void>): Promise<void> {
  const workAlong = async () => {
    for (let item = items.shift(); item !== undefined; item = items.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: 8 }, workAlong));
}

// All calls are made first, and the journal is read once it is closed: no test waits for a line.
beforeAll(async () => {
  const gateway = await startRefusingGateway();
  on = gateway;
  await pinTools(gateway);
  const opened = new Map<Cell, CellSession>();
  await forEach([...cells.entries()], async ([index, cell]) => {
    const session = await openCell(gateway, cell, index).catch((error: unknown) => void failures.set(cell, error));
    if (session !== undefined) opened.set(cell, session);
  });
  await gateway.turn();
  const held = { calls: [] };
  await forEach([...opened], async ([cell, session]) => {
    const said = await callCell(gateway, cell, session, held).catch((error: unknown) => void failures.set(cell, error));
    if (said !== undefined) refused.set(cell, { session, said });
  });
  gateway.upstream.release();
  await Promise.all(held.calls);
  journal = await gateway.finish();
});
afterAll(async () => {
  vi.useRealTimers();
  await on?.remove();
});

function refusedIn(cell: Cell): Refused {
  const found = refused.get(cell);
  if (found === undefined) throw failures.get(cell) ?? new Error('the call was not made');
  return found;
}

/** The answer as its caller acts on it. */
function answerOf({ status, messages }: PostAnswer) {
  const { result, error } = messages.at(-1) ?? {};
  const told = (result?._meta?.['ambit/error'] ?? error?.data ?? {}) as { code?: string; rule?: string };
  const text = result?.content?.at(-1)?.text ?? error?.message;
  return { status, isError: result?.isError, code: told.code ?? error?.code, rule: told.rule, text };
}

/** A refusal is a result that a model reads, except where the client itself has to act. */
function expectedAnswer({ code, status = 200, rule }: Kind) {
  const isResult = typeof code === 'string' && status === 200;
  const text = isResult ? expect.stringMatching(new RegExp(`^${code}: `)) : expect.any(String);
  return { status, isError: isResult || undefined, code, rule, text };
}

/** Lines of the call of this cell, without those of the calls that prepare it. */
function linesOf({ kind, era, server, name, path }: Cell, { id, userId }: CellSession): Line[] {
  const isKnown = !kind.isOver && kind.credential !== 'wrong token';
  const isOurs = (line: Line) => !isKnown || (id === undefined ? line['userId'] === userId : line['sessionId'] === id);
  return journal.filter((line) => {
    if (kind.event !== undefined) return line['event'] === kind.event && line['path'] === path && isOurs(line);
    if (line['method'] !== 'tools/call' || line['era'] !== era) return false;
    if (line['server'] !== server || line['name'] !== name || !isOurs(line)) return false;
    return kind.isOver ? line['outcome'] === kind.code : line['outcome'] !== 'ok';
  });
}

/**
 * Fields that are not compared: when the call was, its own id, how long it took and how many bytes it had; the process,
 * which is named or not by how far a start came; and the session, where it is no more and may not be found any longer.
 * `era`, `server`, `name` and `path` are compared with what the address says.
 */
function comparedFields(line: Line, { isOver, hasPid }: Kind): Line {
  const left = ['time', 'id', 'ms', 'upstreamMs', 'argsSha256', 'claims', 'bytesIn', 'bytesOut'];
  if (!hasPid) left.push('pid');
  if (isOver) left.push('sessionId', 'userId');
  return Object.fromEntries(Object.entries(line).filter(([field]) => !left.includes(field)));
}

function expectedLine({ kind, era, server, name, path }: Cell, { id, userId }: CellSession): Line {
  const { code, status, rule = kind.untoldRule, event } = kind;
  const isKnown = !kind.isOver && kind.credential !== 'wrong token';
  const who = isKnown ? { sessionId: id ?? expect.any(String), userId } : {};
  if (event !== undefined) {
    const request = { entrance: 'http', method: 'POST', path, address: '127.0.0.1' };
    const detail = event === 'length' ? { detail: expect.any(String) } : {};
    return { kind: 'refusal', event, ...request, status, code: String(code), ...detail, ...who };
  }
  const call = { kind: 'call', ...who, entrance: 'http', era, server, method: 'tools/call', name };
  const decided = { outcome: String(code), ...(rule === undefined ? {} : { rule }) };
  return { ...call, ...decided, ...(kind.hasPid ? { pid: expect.any(Number) } : {}) };
}

describe('a refused call is answered and recorded alike at every address, in both eras', () => {
  test.each(cells.map((cell) => [writeTitle(cell), cell] as const))('%s', (_, cell) => {
    const { session, said } = refusedIn(cell);
    expect.soft(answerOf(said)).toEqual(expectedAnswer(cell.kind));
    // A token that proves nobody names no session: the lines of all such calls at this address are found.
    const alike = cells.filter(({ kind, path }) => kind === cell.kind && path === cell.path);
    const count = cell.kind.credential === 'wrong token' ? alike.length : 1;
    const lines = linesOf(cell, session).map((line) => comparedFields(line, cell.kind));
    expect.soft(lines).toEqual(Array(count).fill(expectedLine(cell, session)));
    // Else there would be no kept result that the call could have been answered with.
    const kept = journal.filter((line) => line['sessionId'] === session.id && line['cached'] !== undefined);
    expect.soft(kept.length).toBe(cell.kind.before?.includes('answered before') ? 1 : 0);
  });

  // The name of a server that is not available is all that its answer says, and that is another one at each address.
  const worded = kinds.filter(({ code }) => code !== 'SERVER_NOT_AVAILABLE');
  test.each(worded.map((kind) => [kind.name, kind] as const))('in the same words: %s', (_, kind) => {
    const own = cells.filter((cell) => cell.kind === kind);
    for (const cell of own.filter(({ path }) => path !== '/mcp')) {
      const sameCall = own.filter(({ target, era }) => target === cell.target && era === cell.era);
      const atAll = sameCall.find(({ path }) => path === '/mcp') as Cell;
      const [one, all] = [refusedIn(cell), refusedIn(atAll)];
      expect.soft(all.said.text.replaceAll(all.session.userId, one.session.userId)).toBe(one.said.text);
    }
  });
});

test('every stage declares the refusals that it makes', () => {
  expect([...new Set(on?.undeclared)]).toEqual([]);
});

describe('a server that the session may not use looks like one that is not there', () => {
  const isOfAll = ({ path }: Cell) => path === '/mcp';
  const hidden = cells.filter(
    ({ kind }) => kind.code === 'SERVER_NOT_AVAILABLE' && !kind.before?.includes('all calls used'),
  );
  const places = hidden.filter(({ kind }) => kind.name === 'unknown server');
  test.each(places.map((cell) => [isOfAll(cell) ? '/mcp' : '/mcp/{server}', cell.era, cell] as const))(
    'at %s in the %s era',
    (_, __, place) => {
      const alike = hidden.filter((cell) => cell.era === place.era && isOfAll(cell) === isOfAll(place));
      const texts = alike.map((cell) => {
        const { text } = refusedIn(cell).said;
        return text.replaceAll(`"${isOfAll(cell) ? cell.name : cell.server}\\"`, '"NAME\\"');
      });
      expect(texts.length).toBeGreaterThan(4);
      expect(new Set(texts).size, texts.join('\n')).toBe(1);
    },
  );
});
