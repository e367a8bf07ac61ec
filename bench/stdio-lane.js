// One session straight to its own server process: the limit no gateway can pass.
import { spawn } from 'node:child_process';
import { callBody, reusableCall, wrongAnswer } from './messages.js';

export async function openStdioLane({ server, era, session }) {
  const child = spawn(process.execPath, [server], { stdio: ['pipe', 'pipe', 'inherit'] });
  const bytesFor = reusableCall('', `${callBody(era, session)}\n`);
  let rest = '';
  let settle;
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    rest += chunk;
    if (!rest.endsWith('\n')) return;
    const line = rest;
    rest = '';
    settle?.(undefined, line);
  });
  child.on('exit', () => settle?.(new Error(`the server of session ${session} ended`)));

  return {
    call(id, done) {
      settle = (error, line) => {
        settle = undefined;
        done(error ?? wrongAnswer(JSON.parse(line), id, session));
      };
      child.stdin.write(bytesFor(id));
    },
    close: () => child.stdin.end(),
  };
}
