// These schemas are loaded only for the API description and by tests; other code uses their types. That keeps the start
// fast.
export * from './answers/activity.ts';
export * from './answers/configuration.ts';
export * from './answers/consoles.ts';
export * from './answers/folders.ts';
export * from './answers/people.ts';
export * from './answers/server-details.ts';
export * from './answers/servers.ts';
export * from './answers/session-details.ts';
export * from './answers/sessions.ts';
export * from './answers/statistics.ts';
