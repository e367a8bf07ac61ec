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
  /** `check`: a tool call may have taken effect; the error says so, and the caller checks that before it repeats the call. */
  readonly retryable: boolean | 'check';
}

export const errorTable = {
  UNAUTHENTICATED: {
    sentence: 'The request has no valid credential.',
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
    sentence: 'Another caller has changed the session in the meantime.',
    hint: 'Read the session again, then repeat the change.',
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
    sentence: 'The limit on sessions is reached.',
    hint: 'End sessions that are no longer needed, or raise sessions.maxPerUser or sessions.maxSessions.',
    http: 429,
    rpc: 1007,
    retryable: true,
  },
  PERMISSION_DENIED: {
    sentence: 'A rule denies this call, or the session lacks a permission.',
    hint: 'Continue without this call, or ask the operator: "ambit explain" shows which rule decides and why.',
    http: 403,
    rpc: 1008,
    retryable: false,
  },
  TRUST_REQUIRED: {
    sentence: 'The requested trust level is higher than allowed here.',
    hint: 'Request "sandboxed", or ask the operator to allow more.',
    http: 403,
    rpc: 1009,
    retryable: false,
  },
  SERVER_NOT_AVAILABLE: {
    sentence: 'No server with that name is available to this session.',
    hint: 'Use a server that this session is allowed to use.',
    http: 404,
    rpc: 1010,
    retryable: false,
  },
  SERVER_NOT_APPROVED: {
    sentence: 'The server comes from a project file or an import, and its current definition is not approved.',
    hint: 'The operator can review and approve it with "ambit server approve NAME".',
    http: 403,
    rpc: 1011,
    retryable: false,
  },
  APPROVAL_STALE: {
    sentence: 'The server is not as it was when it was reviewed, so nothing was approved.',
    hint: 'Review it again, then approve what you see.',
    http: 409,
    rpc: 1071,
    retryable: false,
  },
  UPSTREAM_FAILED: {
    sentence: 'The MCP server failed.',
    hint: 'Try again. If it keeps failing, the operator finds the reason in the log or with "ambit server check NAME".',
    http: 502,
    rpc: 1012,
    retryable: 'check',
  },
  UPSTREAM_TIMEOUT: {
    sentence: 'The MCP server did not answer in time.',
    hint: 'Try again with a smaller request, or ask the operator to raise the time limit.',
    http: 504,
    rpc: 1013,
    retryable: 'check',
  },
  UPSTREAM_TOO_LARGE: {
    sentence: 'The answer of the MCP server is larger than allowed.',
    hint: 'Request less at a time, or ask the operator to raise limits.messageBytes.',
    http: 502,
    rpc: 1014,
    retryable: false,
  },
  SANDBOX_UNAVAILABLE: {
    sentence: 'The session is sandboxed, and no sandbox is available for this server.',
    hint: 'Run "ambit doctor" to see what is missing, or use a session created with "--trust direct" if the operator allows it.',
    http: 503,
    rpc: 1015,
    retryable: false,
  },
  OVERLOADED: {
    sentence: 'Too many requests are in progress.',
    hint: 'Wait until some of them have finished, then try again.',
    http: 503,
    rpc: 1016,
    retryable: true,
  },
  QUOTA_EXCEEDED: {
    sentence: 'The quota for calls is used up.',
    hint: 'Wait for the time in retryAfterMs, then try again.',
    http: 429,
    rpc: 1017,
    retryable: true,
  },
  CLIENT_UNREACHABLE: {
    sentence: 'No client is connected that could answer.',
    hint: 'Send the request while a call is in progress or a stream is open.',
    http: 503,
    rpc: 1031,
    retryable: true,
  },
  PUSH_DENIED: {
    sentence: 'This server is not allowed to send that request to the client.',
    hint: 'The operator can allow it with servers.<name>.push.',
    http: 403,
    rpc: 1032,
    retryable: false,
  },
  WORKSPACE_NOT_FOUND: {
    sentence: 'There is no such workspace.',
    hint: 'Use one of the workspaces in the configuration: "ambit workspace list".',
    http: 404,
    rpc: 1018,
    retryable: false,
  },
  WORKSPACE_REQUIRED: {
    sentence: 'The session has no workspace, so it has no files.',
    hint: 'Use a session with a workspace: list sessions with session_list, or create one with "ambit session create --workspace NAME".',
    http: 400,
    rpc: 1037,
    retryable: false,
  },
  WORKSPACE_UNAVAILABLE: {
    sentence: 'The files of the workspace are not reachable at the moment.',
    hint: 'Try again shortly. The operator finds the reason in the log.',
    http: 503,
    rpc: 1038,
    retryable: true,
  },
  WORKSPACE_CONFLICT: {
    sentence: 'The changes of the session conflict with the current files of the workspace.',
    hint: 'Nothing was changed. Merge again with --prefer session or --prefer workspace (API: "prefer").',
    http: 409,
    rpc: 1039,
    retryable: false,
  },
  PATH_VIOLATION: {
    sentence: 'The path leads outside the workspace.',
    hint: 'Use a path relative to the workspace, such as "src/index.ts". session_list_dir lists the files.',
    http: 403,
    rpc: 1040,
    retryable: false,
  },
  PATH_INVALID: {
    sentence: 'The path is not valid.',
    hint: 'Use a path relative to the workspace, such as "src/index.ts".',
    http: 400,
    rpc: 1041,
    retryable: false,
  },
  PATH_PROTECTED: {
    sentence: 'Sessions have no access to this path.',
    hint: 'Continue without it, or ask the operator, who can allow it in workspaces.<name>.files.',
    http: 403,
    rpc: 1042,
    retryable: false,
  },
  FILE_NOT_FOUND: {
    sentence: 'There is no such file.',
    hint: 'Find it with session_list_dir or session_file_search.',
    http: 404,
    rpc: 1043,
    retryable: false,
  },
  FILE_EXISTS: {
    sentence: 'A file or folder with that name already exists.',
    hint: 'Choose another name, or set "overwrite": true.',
    http: 409,
    rpc: 1044,
    retryable: false,
  },
  FILE_WRONG_KIND: {
    sentence: 'The tool cannot work on this kind of file.',
    hint: 'Find out what it is with session_file_info.',
    http: 409,
    rpc: 1045,
    retryable: false,
  },
  FILE_TOO_LARGE: {
    sentence: 'The file is larger than allowed.',
    hint: 'Read part of it with startLine and endLine, or with maxBytes.',
    http: 413,
    rpc: 1046,
    retryable: false,
  },
  FILE_CHANGED: {
    sentence: 'The file was changed by someone else in the meantime.',
    hint: 'Read it again with session_read_file, then repeat the change.',
    http: 409,
    rpc: 1047,
    retryable: true,
  },
  FILE_FAILED: {
    sentence: 'The file could not be read or written.',
    hint: 'Try again, or inspect it with session_file_info.',
    http: 500,
    rpc: 1048,
    retryable: true,
  },
  FOLDER_NOT_EMPTY: {
    sentence: 'The folder is not empty.',
    hint: 'Set "recursive": true to delete it with its contents.',
    http: 409,
    rpc: 1049,
    retryable: false,
  },
  WORKSPACE_FULL: {
    sentence: 'The session has reached its limit on written data.',
    hint: 'Delete files that are no longer needed, or ask the operator to raise the limits in workspaces.<name>.files.',
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
    hint: 'Include more of the surrounding lines, or set "replaceAll": true.',
    http: 409,
    rpc: 1052,
    retryable: false,
  },
  REQUEST_INVALID: {
    sentence: 'The request is not valid.',
    hint: 'Correct the request as described in the message.',
    http: 400,
    rpc: 1027,
    retryable: false,
  },
  METADATA_TOO_LARGE: {
    sentence: 'The metadata of the session is larger than allowed.',
    hint: 'Store less metadata, or ask the operator to raise sessions.metadataBytes.',
    http: 413,
    rpc: 1026,
    retryable: false,
  },
  STATE_CONFLICT: {
    sentence: 'The entry was changed by someone else in the meantime.',
    hint: 'Read it again with session_state_get, then write with its current version.',
    http: 409,
    rpc: 1035,
    retryable: true,
  },
  STATE_FULL: {
    sentence: 'The state of the session has reached a limit.',
    hint: 'Delete entries that are no longer needed, or store smaller values.',
    http: 413,
    rpc: 1036,
    retryable: false,
  },
  INBOX_FULL: {
    sentence: 'The inbox of that session is full.',
    hint: 'Wait until the other agent has read and acknowledged messages, then send again.',
    http: 429,
    rpc: 1060,
    retryable: true,
  },
  CONFIG_INVALID: {
    sentence: 'The configuration is not valid.',
    hint: 'Correct the lines listed, then start again.',
    http: 500,
    rpc: 1028,
    retryable: false,
  },
  CONFIG_UNCHANGED: {
    sentence: 'The configuration cannot be changed like this, so it stays as it is.',
    hint: 'Read the reason in the message, correct it, then send the request again.',
    http: 409,
    rpc: 1072,
    retryable: false,
  },
  STORE_UNAVAILABLE: {
    sentence: 'The session store does not answer.',
    hint: 'Try again shortly. Confirmed changes are not lost.',
    http: 503,
    rpc: 1029,
    retryable: true,
  },
  CREDENTIAL_UNUSABLE: {
    sentence: 'A credential that the server needs for this user cannot be used.',
    hint: 'The operator can find it with "ambit credential list" and set it again.',
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
  CONSOLE_NOT_FOUND: {
    sentence: 'There is no such console.',
    hint: 'List the signed-in consoles with "ambit console list".',
    http: 404,
    rpc: 1061,
    retryable: false,
  },
  KEY_NOT_FOUND: {
    sentence: 'There is no such key.',
    hint: 'List the keys with "ambit key list" and use the id of one.',
    http: 404,
    rpc: 1054,
    retryable: false,
  },
  INSUFFICIENT_SCOPE: {
    sentence: 'The access token lacks a scope that this request needs.',
    hint: 'Get a token with the scopes listed in WWW-Authenticate from the authorization server, then try again.',
    http: 403,
    rpc: 1057,
    retryable: false,
  },
  IDENTITY_UNAVAILABLE: {
    sentence: 'The system that issued the credential does not answer, so the credential cannot be verified.',
    hint: 'Try again shortly. The operator finds the reason in the log.',
    http: 503,
    rpc: 1058,
    retryable: true,
  },
  LOGIN_REQUIRED: {
    sentence: 'The server requires the user to log in.',
    hint: 'The user can log in with "ambit login SERVER --user NAME". Then try again.',
    http: 403,
    rpc: 1055,
    retryable: false,
  },
  LOGIN_FAILED: {
    sentence: 'The login to the server failed.',
    hint: 'Start it again with "ambit login SERVER --user NAME".',
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
  REGISTRY_UNREACHABLE: {
    sentence: 'The MCP registry cannot be used.',
    hint: 'Try again later, or name another registry with --registry URL.',
    http: 502,
    rpc: 1059,
    retryable: true,
  },
  INTERNAL: {
    sentence: 'Internal error in Ambit.',
    hint: 'The log and the journal have the details. Please report it.',
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
