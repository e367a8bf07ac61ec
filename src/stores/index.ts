export type {
  Admission,
  HeldLease,
  LimitName,
  Limits,
  QuotaRefusal,
  Scope,
  Spent,
  StoredUse,
  Use,
  Verdict,
} from './admission.ts';
export type {
  AtVersion,
  Document,
  DocumentDeleted,
  DocumentLimits,
  DocumentListOptions,
  DocumentPage,
  DocumentPut,
  Documents,
  PutOptions,
} from './documents.ts';
export type { Change } from './feed.ts';
export type {
  MessageLimits,
  MessageListOptions,
  MessageSent,
  NewMessage,
  SessionInboxes,
  StoredMessage,
} from './inbox.ts';
export { openMemoryStore } from './memory/memory-store.ts';
export type { EndReason, JsonValue, NewSession, SessionChange, SessionRecord, Tombstone } from './record.ts';
export { openRedisStore, type RedisStoreOptions } from './redis/redis-store.ts';
export { openSqliteStore, type SqliteOptions } from './sqlite/sqlite-store.ts';
export type {
  MarkPut,
  SessionMarks,
  SessionStateStore,
  SetOptions,
  StateDeleted,
  StateKey,
  StateListOptions,
  StatePage,
  StateWritten,
  StoredStateEntry,
} from './state.ts';
export type {
  Caps,
  Created,
  Gone,
  Page,
  PageRequest,
  SessionFilter,
  SessionStore,
  StateLimits,
  StoreCapabilities,
  StoreOptions,
  Updated,
} from './store.ts';
export { openStore, type StoreSettings } from './store-kinds.ts';
