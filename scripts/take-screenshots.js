// Writes the screenshots of the docs: starts the demo, lets its agents work for a while, and visits the views of the web
// console with the Chromium of this machine.
//   node scripts/take-screenshots.js [FOLDER]     the default folder is docs/images
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { chromium } from 'playwright-core';

const project = join(import.meta.dirname, '..');
const target = process.argv[2] ?? join(project, 'docs/images');
/** The time that the agents work before the first picture. */
const workMs = 45_000;
/** The time that a view gets to draw its charts. */
const drawMs = 1500;

const dataDir = mkdtempSync(join(tmpdir(), 'ambit-pictures-'));
const env = { ...process.env, AMBIT_DATA_DIR: dataDir };
const demo = spawn(process.execPath, [join(project, 'examples/demo/start.js')], {
  env,
  stdio: ['ignore', 'pipe', 'inherit'],
});
process.on('exit', () => demo.kill('SIGTERM'));

/** Waits for the address in the output of the demo. */
async function readUrl() {
  for await (const line of createInterface({ input: demo.stdout })) {
    const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(line) ?? [];
    if (url !== undefined) return url;
  }
  throw new Error('The demo did not start.');
}

const url = await readUrl();
demo.stdout.resume();
const adminToken = () => readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();

async function ask(path) {
  const response = await fetch(`${url}/api/v1${path}`, { headers: { Authorization: `Bearer ${adminToken()}` } });
  return response.json();
}

/** Waits until a session with this name has made some calls. */
async function findSession(name, calls) {
  for (;;) {
    const { sessions } = await ask('/sessions?include=usage');
    const found = sessions.find((session) => session.name === name && session.usage.calls >= calls);
    if (found !== undefined) return found.id;
    await delay(500);
  }
}

/** The test of a call that a rule refuses, in a session whose server has listed its tools. */
async function describeRefusedCall() {
  const session = await findSession('greenhouse-beds', 3);
  const args = JSON.stringify({ path: 'frost.log', content: '' });
  return `/rules?${new URLSearchParams({ session, tool: 'files__write_file', args })}`;
}

/** The views, each with its file, its size and its colour scheme. */
const pictures = [
  { name: 'sessions', address: async () => '/sessions' },
  { name: 'session', address: async () => `/sessions/${await findSession('greenhouse-beds', 9)}`, height: 1250 },
  { name: 'overview', address: async () => '/overview' },
  { name: 'server', address: async () => '/servers/notes' },
  { name: 'rules', address: describeRefusedCall },
  { name: 'policies', address: async () => '/policies' },
  { name: 'journal', address: async () => '/journal' },
  { name: 'sessions-dark', address: async () => '/sessions', scheme: 'dark' },
  { name: 'phone', address: async () => '/sessions', width: 390, height: 844 },
];

async function signIn(browser, { width = 1280, height = 800, scheme = 'light' }) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    deviceScaleFactor: 1.5,
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  await page.goto(url);
  await page.fill('input[name=token]', adminToken());
  await page.click('button[type=submit]');
  await page.locator('main h1').waitFor();
  return page;
}

mkdirSync(target, { recursive: true });
await delay(workMs);
const args = [
  '--disable-gpu',
  '--no-first-run',
  '--disable-background-networking',
  ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
for (const picture of pictures) {
  const page = await signIn(browser, picture);
  const address = await picture.address();
  await page.evaluate(`location.hash = '#${address}'`);
  await page.locator(`main[data-path="${address.slice(1).split('?')[0]}"] h1`).waitFor();
  // The pointer is where the button to sign in was, and would mark a row.
  await page.mouse.move(0, 0);
  await delay(drawMs);
  await page.screenshot({ path: join(target, `console-${picture.name}.png`) });
  await page.context().close();
  process.stdout.write(`${picture.name}\n`);
}
await browser.close();
demo.kill('SIGTERM');
await once(demo, 'exit');
rmSync(dataDir, { recursive: true, force: true });
