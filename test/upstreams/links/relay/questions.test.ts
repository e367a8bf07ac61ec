import { expect, test } from 'vitest';
import { findQuestionRefusalIn } from '../../../../src/upstreams/links/relay/questions.ts';
import { response } from './handles.ts';

const server = { name: 'notes', push: { sampling: false, elicitation: true, roots: false } };
const sampling = '{"method":"sampling/createMessage"}';
const elicitation = '{"method":"elicitation/create"}';

function ruleFor(result: string): string | undefined {
  return findQuestionRefusalIn(server, response(result))?.rule;
}

test.each([
  `{"inputRequests":{"a":${elicitation},"b":${sampling}}}`,
  String.raw`{"inputRequests":{"b":{"method":"sampling\/createMessage"}}}`,
])('a denied question is found in %s', (result) => {
  expect(ruleFor(result)).toBe('servers.notes.push.sampling');
});

test.each([
  `{"inputRequests":{},"inputRequests":{"b":${sampling}}}`,
  `{"INPUTREQUESTS":{"b":${elicitation}}}`,
  '{"inputRequests":{"b":{"method":"elicitation/create","Method":"sampling/createMessage"}}}',
  '{"inputRequests":{"b":{"method":"elicitation/create","params":{},"params":{"message":"x"}}}}',
  `{"resultType":"x","resultType":"input_required","inputRequests":{"b":${elicitation}}}`,
])('S3: a question that can be read in two ways is refused: %s', (result) => {
  expect(findQuestionRefusalIn(server, response(result))?.message).toMatch(/ambiguous/);
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
