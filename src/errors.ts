/**
 * All errors of Ambit in one table. A code is a promise: it is never reused for something else. `rpc` lies outside
 * −32768…−32000, the range that JSON-RPC and MCP reserve.
 */
export interface ErrorRow {
  /** The cause, in a sentence that a model can act on. */
  readonly sentence: string;
  /** Advice on what to do about it. */
  readonly hint: string;
  readonly http: number;
  readonly rpc: number;
  readonly retryable: boolean;
}

export const errorTable = {
  UNAUTHENTICATED: {
    sentence: 'The request carries no credential that verifies.',
    hint: 'Send "Authorization: Bearer <token>": a session token ("ambit session create") or a key ("ambit key create").',
    http: 401,
    rpc: 1001,
    retryable: false,
  },
  SESSION_NOT_FOUND: {
    sentence: 'There is no such session.',
    hint: 'List the sessions with "ambit session list".',
    http: 404,
    rpc: 1002,
    retryable: false,
  },
  SESSION_EXPIRED: {
    sentence: 'The session has expired.',
    hint: 'Ask the orchestrator for a new session.',
    http: 401,
    rpc: 1003,
    retryable: false,
  },
  SESSION_ENDED: {
    sentence: 'The session has been ended.',
    hint: 'Ask the orchestrator for a new session.',
    http: 401,
    rpc: 1004,
    retryable: false,
  },
  SESSION_STALE: {
    sentence: 'The session has changed in the meantime.',
    hint: 'Read it again and decide anew.',
    http: 409,
    rpc: 1005,
    retryable: true,
  },
  SESSION_EXISTS: {
    sentence: 'A live session of this user already has that name.',
    hint: 'Choose another name, or end the other session first.',
    http: 409,
    rpc: 1006,
    retryable: false,
  },
  SESSION_LIMIT: {
    sentence: 'No further session can be opened.',
    hint: 'End sessions that are no longer needed, or raise sessions.maxPerUser or sessions.maxSessions.',
    http: 429,
    rpc: 1007,
    retryable: true,
  },
  PERMISSION_DENIED: {
    sentence: 'A rule or a missing permission stands against this call.',
    hint: 'Do without this call, or ask the operator: "ambit explain" says which rule decides, and from what.',
    http: 403,
    rpc: 1008,
    retryable: false,
  },
  TRUST_REQUIRED: {
    sentence: 'More trust was asked for than the bounds allow.',
    hint: 'Ask for "sandboxed", or let the operator widen the bounds.',
    http: 403,
    rpc: 1009,
    retryable: false,
  },
  SERVER_NOT_AVAILABLE: {
    sentence: 'No server of that name is available to this session.',
    hint: 'Use a server that this session is allowed to use.',
    http: 404,
    rpc: 1010,
    retryable: false,
  },
  SERVER_NOT_APPROVED: {
    sentence: 'The server comes from a project or imported file and is not approved as it stands.',
    hint: 'The operator can look at it and approve it with "ambit server approve NAME".',
    http: 403,
    rpc: 1011,
    retryable: false,
  },
  UPSTREAM_FAILED: {
    sentence: 'The server behind Ambit failed.',
    hint: 'Try again; if it goes on failing, the operator finds the reason in the log, and with "ambit server check NAME".',
    http: 502,
    rpc: 1012,
    retryable: true,
  },
  UPSTREAM_TIMEOUT: {
    sentence: 'The server behind Ambit did not answer in time.',
    hint: 'Try again with a smaller request, or let the operator raise the limit.',
    http: 504,
    rpc: 1013,
    retryable: true,
  },
  UPSTREAM_TOO_LARGE: {
    sentence: 'The server behind Ambit answered with more than the limit allows.',
    hint: 'Ask for less at a time, or let the operator raise limits.messageBytes.',
    http: 502,
    rpc: 1014,
    retryable: false,
  },
  SANDBOX_UNAVAILABLE: {
    sentence: 'This session is sandboxed, and no sandbox can be had for this server here.',
    hint: 'A session created with "--trust direct" may start it, where the operator allows that.',
    http: 503,
    rpc: 1015,
    retryable: false,
  },
  OVERLOADED: {
    sentence: 'Too much is under way at once.',
    hint: 'Wait for calls that are under way, then try again.',
    http: 503,
    rpc: 1016,
    retryable: true,
  },
  QUOTA_EXCEEDED: {
    sentence: 'The quota for calls is used up for now.',
    hint: 'Wait as long as retryAfterMs says, then call again.',
    http: 429,
    rpc: 1017,
    retryable: true,
  },
  CLIENT_UNREACHABLE: {
    sentence: 'No caller is there to answer.',
    hint: 'Ask while a call is under way, or when a stream is open.',
    http: 503,
    rpc: 1031,
    retryable: true,
  },
  PUSH_DENIED: {
    sentence: 'This server may not ask for that.',
    hint: 'The operator can allow it with servers.<name>.push.',
    http: 403,
    rpc: 1032,
    retryable: false,
  },
  WORKSPACE_NOT_FOUND: {
    sentence: 'There is no such workspace.',
    hint: 'Use one of the workspaces named in the configuration.',
    http: 404,
    rpc: 1018,
    retryable: false,
  },
  WORKSPACE_REQUIRED: {
    sentence: 'The session works in no workspace, so there are no files.',
    hint: 'Use a session that has one: session_list shows them, and "ambit session create --workspace W" opens one.',
    http: 400,
    rpc: 1037,
    retryable: false,
  },
  WORKSPACE_UNAVAILABLE: {
    sentence: 'The files of the workspace cannot be reached just now.',
    hint: 'Try again shortly; the operator sees why in the log.',
    http: 503,
    rpc: 1038,
    retryable: true,
  },
  WORKSPACE_CONFLICT: {
    sentence: 'What the session changed does not fit onto the workspace as it is now.',
    hint: 'Nothing was changed. Bring the files named up to date in the session, then merge again.',
    http: 409,
    rpc: 1039,
    retryable: false,
  },
  PATH_VIOLATION: {
    sentence: 'The path leads outside the workspace.',
    hint: 'Give a path relative to the workspace, such as "src/index.ts"; session_list_dir shows what there is.',
    http: 403,
    rpc: 1040,
    retryable: false,
  },
  PATH_INVALID: {
    sentence: 'That is not a path.',
    hint: 'Give a path relative to the workspace, such as "src/index.ts".',
    http: 400,
    rpc: 1041,
    retryable: false,
  },
  PATH_PROTECTED: {
    sentence: 'The path is closed to sessions.',
    hint: 'Leave it, or ask the operator, who can open it with workspaces.<name>.files.',
    http: 403,
    rpc: 1042,
    retryable: false,
  },
  FILE_NOT_FOUND: {
    sentence: 'There is no such file.',
    hint: 'Look with session_list_dir or session_file_search.',
    http: 404,
    rpc: 1043,
    retryable: false,
  },
  FILE_EXISTS: {
    sentence: 'There is something of that name already.',
    hint: 'Choose another name, or say that it may be replaced.',
    http: 409,
    rpc: 1044,
    retryable: false,
  },
  FILE_WRONG_KIND: {
    sentence: 'What lies there is not of the kind that the tool works on.',
    hint: 'Ask session_file_info what it is.',
    http: 409,
    rpc: 1045,
    retryable: false,
  },
  FILE_TOO_LARGE: {
    sentence: 'The file is larger than allowed.',
    hint: 'Read a part of it with startLine and endLine, or with maxBytes.',
    http: 413,
    rpc: 1046,
    retryable: false,
  },
  FILE_CHANGED: {
    sentence: 'The file was changed by someone else meanwhile.',
    hint: 'Read it again with session_read_file, and decide anew.',
    http: 409,
    rpc: 1047,
    retryable: true,
  },
  FILE_FAILED: {
    sentence: 'The file could not be used.',
    hint: 'Try again, or ask session_file_info what it is.',
    http: 500,
    rpc: 1048,
    retryable: true,
  },
  FOLDER_NOT_EMPTY: {
    sentence: 'The folder is not empty.',
    hint: 'Say "recursive": true to delete it with all that is in it.',
    http: 409,
    rpc: 1049,
    retryable: false,
  },
  WORKSPACE_FULL: {
    sentence: 'The session has written as much as it may.',
    hint: 'Delete what is no longer needed; the operator can raise workspaces.<name>.files.',
    http: 413,
    rpc: 1050,
    retryable: false,
  },
  EDIT_NO_MATCH: {
    sentence: 'The text to replace is not in the file.',
    hint: 'Read the file again with session_read_file, and copy the text exactly.',
    http: 409,
    rpc: 1051,
    retryable: false,
  },
  EDIT_AMBIGUOUS: {
    sentence: 'The text to replace is in the file more than once.',
    hint: 'Give more of the lines around it, or say "replaceAll": true.',
    http: 409,
    rpc: 1052,
    retryable: false,
  },
  REQUEST_INVALID: {
    sentence: 'The request is not well-formed.',
    hint: 'Correct it as the message says.',
    http: 400,
    rpc: 1027,
    retryable: false,
  },
  METADATA_TOO_LARGE: {
    sentence: 'The metadata of the session is larger than allowed.',
    hint: 'Keep less with the session, or let the operator raise sessions.metadataBytes.',
    http: 413,
    rpc: 1026,
    retryable: false,
  },
  STATE_CONFLICT: {
    sentence: 'The entry has been written meanwhile.',
    hint: 'Read it with session_state_get, decide anew, and write with the version it has now.',
    http: 409,
    rpc: 1035,
    retryable: true,
  },
  STATE_FULL: {
    sentence: 'The session cannot keep that.',
    hint: 'Delete what is no longer needed, or keep less.',
    http: 413,
    rpc: 1036,
    retryable: false,
  },
  CONFIG_INVALID: {
    sentence: 'The configuration is not valid.',
    hint: 'Correct the lines named, then start again.',
    http: 500,
    rpc: 1028,
    retryable: false,
  },
  STORE_UNAVAILABLE: {
    sentence: 'The session store does not answer.',
    hint: 'Try again shortly; nothing that was confirmed is lost.',
    http: 503,
    rpc: 1029,
    retryable: true,
  },
  CREDENTIAL_UNUSABLE: {
    sentence: 'A credential that the server needs for this user cannot be used.',
    hint: 'The operator sees which with "ambit credential list", and can set it anew.',
    http: 500,
    rpc: 1033,
    retryable: false,
  },
  USER_NOT_FOUND: {
    sentence: 'There is no such user.',
    hint: 'List the users with "ambit user list", or add one with "ambit user add NAME".',
    http: 404,
    rpc: 1053,
    retryable: false,
  },
  KEY_NOT_FOUND: {
    sentence: 'There is no such key.',
    hint: 'List the keys with "ambit key list"; a key is named by its id.',
    http: 404,
    rpc: 1054,
    retryable: false,
  },
  INSUFFICIENT_SCOPE: {
    sentence: 'The access token lacks a scope that this needs.',
    hint: 'Get a token with the scopes named in WWW-Authenticate from the authorization server, and try again.',
    http: 403,
    rpc: 1057,
    retryable: false,
  },
  IDENTITY_UNAVAILABLE: {
    sentence: 'The keys of the identity provider cannot be had just now, so no token of it can be verified.',
    hint: 'Try again shortly; the operator sees why in the log.',
    http: 503,
    rpc: 1058,
    retryable: true,
  },
  LOGIN_REQUIRED: {
    sentence: 'The server wants its user to log in there.',
    hint: 'The user does so with "ambit login SERVER --user U"; then try again.',
    http: 403,
    rpc: 1055,
    retryable: false,
  },
  LOGIN_FAILED: {
    sentence: 'The login to the server did not succeed.',
    hint: 'Start it again with "ambit login SERVER --user U".',
    http: 502,
    rpc: 1056,
    retryable: false,
  },
  GATEWAY_UNREACHABLE: {
    sentence: 'No gateway is running for this configuration.',
    hint: 'Start one with "ambit serve".',
    http: 503,
    rpc: 1030,
    retryable: true,
  },
  INTERNAL: {
    sentence: 'Ambit itself failed.',
    hint: 'The journal has the details; please report it.',
    http: 500,
    rpc: 1099,
    retryable: false,
  },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errorTable;

export interface ErrorDetails {
  /** The particular cause, such as the value that failed. It replaces the table's sentence. */
  readonly what?: string;
  readonly hint?: string;
  /** The rule that decided, if there is one. */
  readonly rule?: string;
  readonly retryAfterMs?: number;
  /** Address at which the user can fix it, in a browser. */
  readonly link?: string;
  /** All scopes that an access token needs for this. */
  readonly scopes?: readonly string[];
  /** All permissions that the tool needs, if some are missing. */
  readonly needs?: readonly string[];
  readonly cause?: unknown;
}

const brand = Symbol.for('ambit.error');

/** A refusal or failure with a code of the table. All of it may be shown to the caller, so it must hold no secret. */
export class AmbitError extends Error {
  readonly [brand] = true;
  readonly code: ErrorCode;
  readonly hint: string;
  readonly rule: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly link: string | undefined;
  readonly scopes: readonly string[] | undefined;
  readonly needs: readonly string[] | undefined;

  constructor(code: ErrorCode, details: ErrorDetails = {}) {
    super(
      details.what ?? errorTable[code].sentence,
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.name = 'AmbitError';
    this.code = code;
    this.hint = details.hint ?? errorTable[code].hint;
    this.rule = details.rule;
    this.retryAfterMs = details.retryAfterMs;
    this.link = details.link;
    this.scopes = details.scopes;
    this.needs = details.needs;
  }

  get row(): ErrorRow {
    return errorTable[this.code];
  }
}

/** True across realms and duplicate copies of the package, where `instanceof` fails. */
export function isAmbitError(error: unknown): error is AmbitError {
  return typeof error === 'object' && error !== null && brand in error;
}
