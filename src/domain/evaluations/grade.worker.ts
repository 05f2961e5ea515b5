// A thread's share of grading: one group of answers. Pure work, kept off the thread that serves.
import { type Grade, type GradedItem, grade } from "./grade.ts";

export interface GradeTask {
  answer: string;
  item: GradedItem;
}

export default (tasks: GradeTask[]): Grade[] => tasks.map(({ answer, item }) => grade(answer, item));
