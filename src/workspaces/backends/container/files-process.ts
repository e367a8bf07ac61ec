// The program beside the files, in a container of its own: it opens the volume and answers until its stdin closes.
import { volumeFolder } from '../../../sandbox/container/volume-folder.ts';
import { openLocal } from '../local/open-local.ts';
import { createFrameReader, frameOf } from './frames.ts';
import { createFilesServer } from './serve-files.ts';

const server = createFilesServer(
  async (settings) => openLocal(volumeFolder, settings),
  (head, body) => {
    for (const part of frameOf(head, body)) process.stdout.write(part);
  },
);
const reader = createFrameReader({
  bodyBytes: server.bodyBytes,
  onFrame(head, body) {
    underWay++;
    void server.take(head, body).finally(leaveWhenDone);
  },
});

let underWay = 0;
let isOver = false;

/** What has been begun is done to its end. */
function leaveWhenDone(): void {
  if (--underWay === 0 && isOver) process.exit(0);
}

process.title = 'ambit-files';
process.stdout.on('error', () => process.exit(1));
process.stdin.on('data', (chunk: Buffer) => reader.push(chunk));
process.stdin.on('end', () => {
  isOver = true;
  if (underWay === 0) process.exit(0);
});
