/**
 * What Ambit promises, line by line. `claimed` means that it is built; then at least one test must cite the id at the
 * start of its title (`'P8: …'`), or `test/structure/requirements.test.ts` fails.
 */
export interface Requirement {
  readonly id: string;
  readonly promise: string;
  readonly claimed: boolean;
}

const later = false;
const built = true;

const rows: readonly (readonly [string, boolean, string])[] = [
  ['P1', built, 'session id, workspace id and trust level reach every stdio server'],
  ['P2', built, 'load, validate, filter by trust, filter by workspace, inject, spawn: in that order, in one place'],
  ['P3', built, 'existing env entries stay; pinned context names are shown; the same from project files are refused'],
  ['P4', built, 'the agent cannot override its context by any channel'],
  ['P5', built, 'the same through the sandbox'],
  ['P6', built, 'trust levels normalised, unknown refused, no fallback upward'],
  ['P7', built, 'workspace capabilities, per-tool allow and deny, env overrides'],
  ['P8', built, 'ids and slugs validated where they enter; parallel sessions never share a process or an environment'],
  ['P9', built, 'servers that ignore the context keep working'],
  ['P10', built, 'injection for 10 servers adds less than 1 ms'],
  ['P11', built, 'a server author can log, scope and enforce by the context'],
  ['P12', built, 'user and agent id, signed context for HTTP, JWKS, pseudonyms'],
  ['P13', built, 'sessions of a workspace can create, message and search each other'],
  ['P14', built, 'a session limited to named servers; HTTP servers get the token of the session’s user'],
  ['P15', built, 'debug line per injection, pid in logs, private temporary directory, metrics'],
  ['G1', built, 'the first tool call of a session carries policies and objectives; later ones do not'],
  ['G2', built, 'identity from an API key'],
  ['G3', built, 'anonymous or bad keys: the tool works, no block, a warning'],
  ['G4', built, 'nothing configured: the short note'],
  ['G5', built, 'inheritance from organisation to team to user, and workspace'],
  ['G6', built, 'policies wrap prompts; session_context on demand'],
  ['G7', built, 'cleanup on disconnect, sweep as the net'],
  ['G8', built, 'works without protocol sessions, across restarts and replicas'],
  ['G9', built, 'edited from the page, the CLI and the API'],
  ['L1', built, 'the record, immutable but for last active and what only narrows'],
  ['L2', built, 'created on first call or explicitly; invalid ids refused'],
  ['L3', built, 'propagated to nested and async code; concurrent calls never mix'],
  ['L4', built, 'refreshed on each request; an expired session is refused at once; sweep; explicit end'],
  ['L5', built, 'bounded; in-flight sessions protected; per-user cap; lookup O(1)'],
  ['L6', built, 'stores: memory, SQLite, Redis, proven by one suite'],
  ['L7', built, 'cache key includes the session; no cross-session hit'],
  ['L8', built, 'logs, metrics, OpenTelemetry'],
  ['L9', built, 'never logged: full ids, tokens, hashes'],
  ['L10', built, 'permissions checked before a tool runs; per-user upstream credentials'],
  ['L11', built, 'quotas and rate limits'],
  ['L12', built, 'hijack protection'],
  ['L13', built, 'session management tools; lifecycle events'],
  ['L14', built, 'optional session info in result _meta'],
  ['L15', built, 'state across calls of a workflow'],
  ['L16', built, 'several processes share sessions'],
  ['W1', built, 'the session file tools'],
  ['W2', built, 'sessions found by id, name, other identifiers'],
  ['W3', built, 'paths never lead outside'],
  ['W4', built, 'every resolution can be traced'],
  ['W5', built, 'workspace backends behind one interface'],
  ['W6', built, 'atomic writes, locking, streaming'],
  ['W7', built, 'sensitive paths blocked; rate limited'],
  ['W8', built, 'typed errors that lead to the right call'],
  ['W9', built, 'many sessions at once stay isolated'],
  ['W10', built, 'resolution in less than 10 ms'],
  ['W11', built, 'a guide for moving from edit_file'],
  ['W12', built, 'a folder of its own for each session'],
  ['O1', built, 'the client announces a workspace in _meta'],
  ['O2', built, 'held per session, never process-global'],
  ['O3', built, 'explicit, else session, else a clear error'],
  ['O4', built, 'schemas show workspace optional'],
  ['O5', built, 'tools read it from the call’s context'],
  ['S1', built, 'a fetched package brings no files of the host along and runs nothing outside a sandbox'],
  ['S2', built, 'nothing a tenant writes reaches another tenant'],
  ['S3', built, 'what Ambit judges is what the server reads, for every field a decision depends on'],
  ['S4', built, 'nothing an agent or a sandboxed server writes is executed through a protected path'],
  ['S5', built, 'git runs only where it sees the repository and the session’s folder'],
  ['S6', built, 'an OAuth secret, code or token goes only to the issuer it belongs to'],
  ['S7', built, 'without a credential nobody can exhaust memory, processor, descriptors or disk'],
  ['S8', built, 'limits hold for a session as a whole'],
  ['S9', built, 'every refusal leaves a journal line'],
  ['S10', built, 'only a credential with the role for it gets into the control API, and no page of another origin'],
  ['U1', later, 'live sessions, one session with timeline and reasons, approval inbox'],
  ['U2', built, 'servers, workspaces, people, policies, rules, journal, overview'],
  ['U3', built, 'usable by keyboard, screen reader and phone; safe against hostile text'],
];

export const requirements: readonly Requirement[] = rows.map(([id, claimed, promise]) => ({ id, claimed, promise }));
