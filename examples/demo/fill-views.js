// The content of the web console that no agent of the demo makes: a key, a credential and an ended session. None of it
// lets anybody in, and all of it is reused at the next start.

const monthSeconds = 30 * 24 * 3600;

/** The key of an imaginary client of grace. Its secret is dropped at once, so nobody can use it. */
const draftKey = {
  userId: 'grace',
  trustLevel: 'sandboxed',
  workspaces: ['kitchen'],
  scopes: ['shopping:read'],
  lifeSeconds: monthSeconds,
};

/** The server of this credential ignores the variable. */
const credential = { userId: 'ada', server: 'who', env: 'NOTES_TOKEN' };

const endedSession = { name: 'spring-cleaning', userId: 'grace', workspaceId: 'kitchen', trustLevel: 'sandboxed' };

/** `requestControl(method, path, body)` sends a request to the control API. */
export async function fillViews(requestControl) {
  // Keys of two users would forbid direct sessions: a key that somebody has made is enough.
  const { keys } = await requestControl('GET', '/keys');
  if (!keys.some(({ state }) => state === 'active')) await requestControl('POST', '/keys', draftKey);

  const { credentials } = await requestControl('GET', '/credentials');
  const isKept = ({ userId, server, env, usable }) =>
    usable && userId === credential.userId && server === credential.server && env === credential.env;
  if (!credentials.some(isKept))
    await requestControl('POST', '/credentials', { ...credential, value: 'not-a-real-token' });

  const { sessions } = await requestControl('GET', '/sessions/ended?limit=1');
  if (sessions.length > 0) return;
  const { id } = await requestControl('POST', '/sessions', endedSession);
  await requestControl('DELETE', `/sessions/${id}`);
}
