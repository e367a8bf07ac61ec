// A lead and three workers split a task over the files of one repository, each in a git worktree of its own. At the end
// their changes are merged. Two workers have changed the same place, so one of them combines both changes.
//
// This file is the orchestrator: it opens the session of the lead, starts the agents and merges. The agents are in
// agents.js. To run it, copy the folder, then use two terminals. The gateway prints the file of the admin token:
//
//   ambit serve --config ambit.yaml
//   node team.js http://127.0.0.1:7420 ADMIN-TOKEN-FILE orchard

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { askToCombine, combineLines, leadTeam, openAgent, workers } from './agents.js';

/**
 * Runs the team in a workspace, whose folder has to be empty, and returns what happened. `pauseMs` slows the agents
 * down. `review` is called with the session of each worker before its changes are merged.
 */
export async function runTeam({
  url,
  adminToken,
  folder,
  workspaceId = 'orchard',
  userId = 'local',
  pauseMs = 0,
  review = () => {},
}) {
  const control = openControl(url, adminToken);
  const git = createRepository(folder);

  /** Starts an agent in a session. Each run gets a new token, so none has to be stored. */
  async function startAgent({ id }, run, request) {
    const { token } = await control.send('POST', `/sessions/${id}/tokens`);
    return run(openAgent({ url, token, pauseMs }), request);
  }

  const task = 'Let no function of the library read the clock';
  const draft = { name: 'orchard-lead', userId, workspaceId, agentId: 'lead', task, ttlSeconds: 600 };
  const lead = await control.send('POST', '/sessions', draft);
  try {
    // Opened before the lead begins, so that no event is missed.
    const events = await control.openEvents();
    const working = runWorkers({ lead, events, startAgent });
    const [results, sessions] = await Promise.all([startAgent(lead, leadTeam), working]);

    const conflicts = [];
    for (const [worker, session] of Object.entries(sessions)) {
      await review(session);
      const merge = (how) => control.send('POST', `/sessions/${session.id}/merge`, how);
      const path = await merge({}).then(() => undefined, readConflict);
      if (path !== undefined) {
        // The agent of the worker is started again in its session, and the lead writes to it.
        const asking = startAgent(lead, askToCombine, { worker, path, results });
        const [answer] = await Promise.all([asking, startAgent(session, combineLines)]);
        conflicts.push({ worker, path, answer });
        // The version of the session now contains both changes.
        await merge({ prefer: 'session' });
      }
      git('add', '--all');
      git('commit', '--quiet', `--author=${worker} <${worker}@orchard.example>`, `--message=${session.task}`);
    }
    const [log, stat] = [git('log', '--format=%h %an: %s'), git('diff', '--stat', 'start')];
    return { sessions: [lead, ...Object.values(sessions)], results, conflicts, log, stat };
  } finally {
    control.close();
    // This ends the sessions of the workers too, and removes all worktrees.
    await control.send('DELETE', `/sessions/${lead.id}`).catch(() => {});
  }
}

/** Starts an agent in each session that the lead creates. Returns the sessions when the agents have finished. */
async function runWorkers({ lead, events, startAgent }) {
  const sessions = {};
  const agents = [];
  for await (const { type, session } of events) {
    if (type !== 'created' || session.parentId !== lead.id) continue;
    const worker = session.agentId.replace('lead:', '');
    sessions[worker] = session;
    const agent = startAgent(session, workers[worker]);
    // A failure is reported below.
    agent.catch(() => {});
    agents.push(agent);
    if (agents.length === Object.keys(workers).length) break;
  }
  await Promise.all(agents);
  return sessions;
}

/** Returns the file that conflicts. */
function readConflict(error) {
  const { path } = error.files?.find(({ outcome }) => outcome === 'conflict') ?? {};
  if (path === undefined) throw error;
  return path;
}

/** The control API. It needs the admin token, which no agent must ever get. */
function openControl(url, adminToken) {
  const closing = new AbortController();
  const headers = { Authorization: `Bearer ${adminToken}`, 'Content-Type': 'application/json' };
  async function request(method, path, options) {
    const response = await fetch(`${url}/api/v1${path}`, { method, headers, ...options });
    if (response.ok) return response;
    const { detail, files } = await response.json();
    throw Object.assign(new Error(detail), { files });
  }
  return {
    send: async (method, path, body) => (await request(method, path, { body: JSON.stringify(body) })).json(),
    openEvents: async () => readEvents((await request('GET', '/events', { signal: closing.signal })).body),
    close: () => closing.abort(),
  };
}

/** Reads server-sent events. */
async function* readEvents(body) {
  let rest = '';
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + chunk).split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const [, data] = /^data: (.*)$/m.exec(event) ?? [];
      if (data !== undefined) yield JSON.parse(data);
    }
  }
}

/** Commits the library in an empty folder, always with the same names and times. Returns a function that runs git. */
function createRepository(folder) {
  mkdirSync(folder, { recursive: true });
  if (readdirSync(folder).length > 0) throw new Error(`The folder ${folder} is not empty.`);
  const env = { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
  for (const role of ['AUTHOR', 'COMMITTER']) {
    env[`GIT_${role}_NAME`] = 'Ada';
    env[`GIT_${role}_EMAIL`] = 'ada@orchard.example';
    env[`GIT_${role}_DATE`] = '2026-01-01T00:00:00Z';
  }
  const git = (...args) => execFileSync('git', args, { cwd: folder, env, encoding: 'utf8' });
  git('init', '--quiet', '--template=', '--initial-branch=main');
  cpSync(new URL('library', import.meta.url), folder, { recursive: true });
  git('add', '--all');
  git('commit', '--quiet', '--message=The first version');
  git('tag', 'start');
  return git;
}

/** Says what the team has done. */
export function describeRun({ sessions, results, conflicts, log, stat }) {
  const tree = sessions.map(({ name, task, parentId }) => `${parentId === null ? '' : '  '}${name}: ${task}`);
  const done = Object.entries(results).map(([worker, { signature }]) => `${worker}: ${signature}`);
  const solved = conflicts.map(({ worker, path, answer }) => `${path} of ${worker}. The answer: "${answer}"`);
  const parts = {
    'The sessions': tree,
    'The functions that they reported': done,
    'The conflicts that the lead asked a worker to resolve': solved,
    'The commits': log.trim().split('\n'),
    'The changes': stat.trim().split(/\n ?/),
  };
  return Object.entries(parts)
    .map(([title, lines]) => `${title}:\n${lines.map((line) => `  ${line}\n`).join('')}`)
    .join('\n');
}

const [, script, url, tokenFile, folder] = process.argv;
if (script !== undefined && realpathSync(script) === import.meta.filename) {
  const adminToken = readFileSync(tokenFile, 'utf8').trim();
  console.log(describeRun(await runTeam({ url, adminToken, folder })));
}
