import { answers, query, taking } from './openapi-parts.ts';
import { objectiveIdShape, objectiveShape, policyNameShape, policyShape } from './policies.ts';

const object = { type: 'object' };

export const policyPaths: Readonly<Record<string, object>> = {
  '/api/v1/policies': {
    get: {
      summary: 'The policies there are; those declared in the configuration are changed only there',
      responses: answers(200, 'The policies', object),
    },
    post: {
      summary: 'Sets a policy, in place of one of the same name in the same scope',
      requestBody: taking(policyShape),
      responses: answers(200, 'The policy', object),
    },
    delete: {
      summary: 'Removes a policy',
      requestBody: taking(policyNameShape),
      responses: answers(200, 'Whether there was one', object),
    },
  },
  '/api/v1/policies/effective': {
    get: {
      summary: 'What a user in a workspace gets, and why: every policy weighed, and the block',
      parameters: [{ ...query('user', 'For whom.'), required: true }, query('workspace', 'In which workspace.')],
      responses: answers(200, 'Policies with what became of each, objectives, and the block', object),
    },
  },
  '/api/v1/objectives': {
    get: { summary: 'The objectives there are', responses: answers(200, 'The objectives', object) },
    post: {
      summary: 'Adds an objective',
      requestBody: taking(objectiveShape),
      responses: answers(201, 'The objective, with its id', object),
    },
    delete: {
      summary: 'Removes an objective',
      requestBody: taking(objectiveIdShape),
      responses: answers(200, 'Whether there was one', object),
    },
  },
};
