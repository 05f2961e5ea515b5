// Grades one group of answers on a worker thread, so that the work does not block the serving thread.
import { type Grade, type GradedItem, grade } from "./grade.ts";

export interface GradeTask {
  answer: string;
  item: GradedItem;
}

export default (tasks: GradeTask[]): Grade[] => tasks.map(({ answer, item }) => grade(answer, item));
