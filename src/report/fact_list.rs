//! All facts of all instances, as `rdma-doctor facts` and pages list them.

use crate::fact::{Fact, Facts, Id, Subject, Value};

/// Facts for `rdma-doctor facts`: every fact of every instance, in the order of the schema.
pub fn all_facts(facts: &Facts) -> Vec<(Id, &'static str, Fact<Value>)> {
    let mut all = Vec::new();
    for subject in Subject::ALL {
        for id in facts.all(subject) {
            for (index, schema) in subject.schema().facts.iter().enumerate() {
                let fact = match facts.look(id, index) {
                    Some(fact) => fact.clone(),
                    None => Fact::Unknown(facts.unset(id, index)),
                };
                all.push((id, schema.name, fact));
            }
        }
    }
    all
}
