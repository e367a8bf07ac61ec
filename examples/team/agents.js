// The agents of the team: a lead and three workers. Each is a script in the place of a model. It has the token of one
// session and nothing else, and does everything with tools of Ambit.

import { setTimeout as delay } from 'node:timers/promises';

/**
 * Lets an agent call tools in the session that the token is for. `pauseMs` is the time it takes to think. By default it
 * sees only Ambit's own tools; with the path /mcp all tools of its session.
 */
export function openAgent({ url, token, pauseMs, path = '/mcp/ambit' }) {
  /** Sends a request of MCP 2026-07-28, which has no handshake: one request, one answer. `name` is the tool. */
  async function request(method, params = {}, name = undefined) {
    const version = '2026-07-28';
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': version,
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${token}`,
        'Content-Type': 'application/json',
        Accept: 'application/json',
        'MCP-Protocol-Version': version,
        'Mcp-Method': method,
        ...(name === undefined ? {} : { 'Mcp-Name': name }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } }),
    });
    const { error, result } = await response.json();
    if (error !== undefined) throw new Error(error.message);
    return result;
  }

  async function call(name, args = {}) {
    await delay(pauseMs);
    const result = await request('tools/call', { name, arguments: args }, name);
    if (result.isError) throw new Error(result.content[0].text);
    return result.structuredContent;
  }

  /** Waits for a message, and acknowledges it, so that the next call returns the next one. */
  async function nextMessage() {
    for (;;) {
      const [message] = (await call('session_inbox', { waitSeconds: 50 })).messages;
      if (message === undefined) continue;
      await call('session_inbox', { acknowledge: message.id });
      return message;
    }
  }

  return {
    listTools: async () => (await request('tools/list')).tools,
    call,
    nextMessage,
    readPlan: async () => (await call('session_state_get', { scope: 'workspace', key: 'plan' })).value,
    replace: (path, oldText, newText) => call('session_edit_file', { path, edits: [{ oldText, newText }] }),
    answer: ({ from, id }, text) => call('session_send_message', { to: from.sessionId, text, replyTo: id }),
    /** Sends a question, and returns the answer. */
    async ask(to, text) {
      const { messageId } = await call('session_send_message', { to, text });
      const answer = await nextMessage();
      if (answer.replyTo !== messageId) throw new Error(`This is no answer: ${answer.text}`);
      return answer.text;
    },
  };
}

const plan = {
  trees: { session: 'orchard-trees', file: 'src/trees.js', task: 'Rename age() to ageOf() and pass the year' },
  harvest: { session: 'orchard-harvest', file: 'src/harvest.js', task: 'Rename crop() to cropOf() and pass the year' },
  labels: { session: 'orchard-labels', file: 'src/labels.js', task: 'Pass the year to label()' },
};

/** What each worker has to report, as a JSON Schema. */
const resultSchema = {
  type: 'object',
  properties: {
    file: { type: 'string' },
    signature: { type: 'string', pattern: '^\\w+\\(.*\\)$' },
    changelog: { type: 'string', pattern: '^- ' },
  },
  required: ['file', 'signature', 'changelog'],
  additionalProperties: false,
};

/** The lead: splits the task over three workers, and returns what they have reported. */
export async function leadTeam({ call }) {
  for (const { file } of Object.values(plan)) {
    const { content } = await call('session_read_file', { path: file });
    if (!/\b(?:age|crop|label)\(/.test(content)) throw new Error(`There is nothing to do in ${file}.`);
  }
  await call('session_state_set', { scope: 'workspace', key: 'plan', value: plan });
  for (const [agent, { session, task }] of Object.entries(plan)) {
    await call('session_create', { name: session, agent, task, resultSchema, ttlSeconds: 600 });
  }
  const text = 'The plan is in the state of the workspace. Do your part of it, and add a line to CHANGELOG.md.';
  for (const { session } of Object.values(plan)) await call('session_send_message', { to: session, text });
  const results = {};
  for (const [worker, { session }] of Object.entries(plan)) results[worker] = await waitForResult(call, session);
  return results;
}

async function waitForResult(call, session) {
  for (;;) {
    const { state, value } = await call('session_result', { session, waitSeconds: 50 });
    if (state === 'reported') return value;
    if (state === 'ended') throw new Error(`${session} ended without a result.`);
  }
}

export const workers = {
  async trees({ call, replace, nextMessage, answer }) {
    await nextMessage();
    await replace('src/trees.js', 'age(tree)', 'ageOf(tree, year)');
    await replace('src/trees.js', 'new Date().getFullYear()', 'year');
    const value = {
      file: 'src/trees.js',
      signature: 'ageOf(tree, year)',
      changelog: '- `age(tree)` is now `ageOf(tree, year)`.',
    };
    await replace('CHANGELOG.md', 'with a new name\n', `with a new name\n\n${value.changelog}\n`);
    // Both of the others use this function.
    for (const _ of ['harvest', 'labels']) await answer(await nextMessage(), value.signature);
    await call('session_report', { value });
  },

  async harvest({ call, readPlan, replace, nextMessage, ask }) {
    await nextMessage();
    // The change of the other worker is in another worktree, which this one cannot see.
    const { trees } = await readPlan();
    const ageOf = await ask(trees.session, 'What do I call instead of age(tree)?');
    await replace('src/harvest.js', 'age(tree)', ageOf);
    await replace('src/harvest.js', '{ age }', `{ ${readName(ageOf)} }`);
    await replace('src/harvest.js', 'crop(trees)', 'cropOf(trees, year)');
    const value = {
      file: 'src/harvest.js',
      signature: 'cropOf(trees, year)',
      changelog: '- `crop(trees)` is now `cropOf(trees, year)`.',
    };
    await replace('CHANGELOG.md', 'with a new name\n', `with a new name\n\n${value.changelog}\n`);
    await call('session_report', { value });
  },

  async labels({ call, readPlan, replace, nextMessage, ask }) {
    await nextMessage();
    const { trees } = await readPlan();
    const ageOf = await ask(trees.session, 'What is age(tree) called now?');
    await replace('src/labels.js', 'age(tree)', ageOf);
    await replace('src/labels.js', '{ age }', `{ ${readName(ageOf)} }`);
    await replace('src/labels.js', 'label(tree)', 'label(tree, year)');
    await replace('README.md', '2019 })', '2019 }, 2026)');
    const value = {
      file: 'src/labels.js',
      signature: 'label(tree, year)',
      changelog: '- `label(tree)` is now `label(tree, year)`.',
    };
    await replace('CHANGELOG.md', 'keep their name\n', `keep their name\n\n${value.changelog}\n`);
    // The schema refuses this one: "file" is missing. The refusal says so, and the worker corrects it.
    const refusal = await call('session_report', { value: { ...value, file: undefined } }).catch((error) => error);
    if (!/"file"/.test(refusal.message)) throw refusal;
    await call('session_report', { value });
  },
};

const readName = (signature) => signature.slice(0, signature.indexOf('('));

/** The lead, when the merge of a worker has failed: asks it to put the line of the other one before its own. */
export async function askToCombine({ ask }, { worker, path, results }) {
  const lines = { own: results[worker].changelog, other: results.trees.changelog };
  return ask(plan[worker].session, JSON.stringify({ path, ...lines }));
}

/** A worker that is started again after its report. Its session still has its files and its inbox. */
export async function combineLines({ replace, nextMessage, answer }) {
  const request = await nextMessage();
  const { path, own, other } = JSON.parse(request.text);
  await replace(path, own, `${other}\n${own}`);
  await answer(request, 'Both lines are in it now.');
}
