import { expect, test } from 'vitest';
import { refusalOfQuestionsIn } from '../../../src/upstreams/relay/refused-question.ts';
import { response } from './handles.ts';

const server = { name: 'notes', push: { sampling: false, elicitation: true, roots: false } };
const sampling = '{"method":"sampling/createMessage"}';
const elicitation = '{"method":"elicitation/create"}';

function ruleFor(result: string): string | undefined {
  return refusalOfQuestionsIn(server, response(result))?.rule;
}

test.each([
  `{"inputRequests":{"a":${elicitation},"b":${sampling}}}`,
  `{"inputRequests":{},"inputRequests":{"b":${sampling}}}`,
  `{"INPUTREQUESTS":{"b":${sampling}}}`,
  '{"inputRequests":{"b":{"method":"elicitation/create","Method":"sampling/createMessage"}}}',
  String.raw`{"inputRequests":{"b":{"method":"sampling\/createMessage"}}}`,
])('a denied question is found in %s', (result) => {
  expect(ruleFor(result)).toBe('servers.notes.push.sampling');
});

test.each([
  `{"inputRequests":{"a":${elicitation}}}`,
  '{"inputRequests":{"a":{"method":"of/tomorrow"},"b":7}}',
  '{"inputRequests":[]}',
  `{"structuredContent":{"inputRequests":{"b":${sampling}}}}`,
  '[]',
])('nothing is refused in %s', (result) => {
  expect(ruleFor(result)).toBeUndefined();
});
