/** What a user may be called, wherever the name comes from: an orchestrator, a command, the configuration. */
export const userName = /^[A-Za-z0-9][A-Za-z0-9._@|:-]{0,127}$/;
export const teamName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
