// The agents that work in the demo beside the team of examples/team. Each is a script in the place of a model: it has the
// token of one session, and calls tools of real servers slowly, so that a person can follow it in the web console.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openAgent } from '../team/agents.js';

/** The time that an agent takes before each call. */
const pauseMs = 4000;
/** The pause of an agent whose work is done. */
const restMs = 20_000;

/** Writes the files that the gardener reads. */
function fillGreenhouse(folder) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, 'seedlings.md'),
    '# Seedlings\n\n- tomatoes: 12 pots\n- basil: 8 pots\n- peppers: 6 pots\n',
  );
  writeFileSync(join(folder, 'frost.log'), 'night 1: 4 degrees\nnight 2: 1 degree\nnight 3: 2 degrees\n');
}

/**
 * Lets a gardener and a cook work until `signal` is aborted. `requestControl(method, path, body)` sends a request to the
 * control API, which opens and ends their sessions as an orchestrator would. `greenhouse` is the folder of the gardener.
 */
export async function runDemoAgents({ url, requestControl, greenhouse, signal }) {
  fillGreenhouse(greenhouse);
  const places = { url, requestControl, signal };
  await Promise.all([work(gardener, places), work(cook, places)]);
}

/**
 * The gardener has an own copy of its workspace, reads and writes files, and asks for two calls that do not succeed: one
 * file does not exist, and a rule refuses the other call.
 */
const gardener = {
  session: {
    name: 'greenhouse-beds',
    userId: 'ada',
    agentId: 'gardener',
    workspaceId: 'greenhouse',
    trustLevel: 'direct',
    task: 'Plan the beds, and keep the seedlings warm',
    quotas: { totalCalls: 200, callsPerMinute: 60 },
  },
  hasFolder: true,
  steps: [
    ['files__list_directory', { path: '.' }],
    ['files__read_text_file', { path: 'seedlings.md' }],
    ['session_state_set', { key: 'step', value: 'reading' }],
    ['session_grep_search', { pattern: '1 degree', glob: '*.log' }],
    ['files__read_text_file', { path: 'harvest.md' }],
    ['session_edit_file', { path: 'beds.md', content: '# Beds\n\nBed 1: tomatoes and basil\nBed 2: peppers\n' }],
    ['files__write_file', { path: 'frost.log', content: '' }],
    ['notes__add_note', { text: 'Cover the beds on cold nights.' }],
    [
      'session_edit_file',
      { path: 'seedlings.md', edits: [{ oldText: 'basil: 8 pots', newText: 'basil: 8 pots, next to the tomatoes' }] },
    ],
    ['session_state_set', { key: 'step', value: 'waiting for the weather' }],
    ['session_inbox', { waitSeconds: 12 }],
    ['notes__list_notes', {}],
  ],
};

/** The cook is sandboxed: its servers run in a sandbox and see its workspace only. It changes nothing. */
const cook = {
  session: {
    name: 'kitchen-dinner',
    userId: 'grace',
    agentId: 'cook',
    workspaceId: 'kitchen',
    trustLevel: 'sandboxed',
    task: 'Find out what is missing for dinner',
    permissions: ['shopping:read', 'notes:delete'],
    quotas: { totalCalls: 40 },
  },
  hasFolder: false,
  steps: [
    ['files__read_text_file', { path: 'shopping.md' }],
    ['who__list_notes', {}],
    ['session_state_set', { key: 'missing', value: ['flour', 'salt'] }],
    ['files__search_files', { path: '.', pattern: '*.md' }],
    ['notes__list_notes', {}],
    ['who__delete_all_notes', {}],
    ['session_inbox', { waitSeconds: 8 }],
    ['session_info', {}],
  ],
};

/** Opens a session, takes all steps in it, ends it, and begins again. */
async function work({ session, hasFolder, steps }, { url, requestControl, signal }) {
  const isOver = () => signal.aborted;
  for (let kept; !isOver(); await delay(restMs, undefined, { signal }).catch(() => {})) {
    // An operator may forbid such sessions for a while, for example with a key of a second user.
    const opened = await requestControl('POST', '/sessions', session).catch(() => undefined);
    if (opened === undefined) continue;
    const { id, token } = opened;
    const agent = openAgent({ url, token, pauseMs, path: '/mcp' });
    // A model reads the list of tools before it calls one.
    if (!isOver()) await agent.listTools().catch(() => {});
    for (const [tool, args] of steps) {
      // A refused or failed call is part of the script, and so is an operator who ends the session.
      if (!isOver()) await agent.call(tool, args).catch(() => {});
    }
    await requestControl('DELETE', `/sessions/${id}`).catch(() => {});
    // The folder of the latest session stays, so that there is something to review. The one before it goes.
    if (kept !== undefined) await requestControl('DELETE', `/sessions/${kept}/folder`).catch(() => {});
    kept = hasFolder ? id : undefined;
  }
}
